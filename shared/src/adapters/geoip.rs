//! The database of places: a file in MaxMind's format.

use std::net::IpAddr;
use std::path::Path;

use maxminddb::{Reader, geoip2};
use serde_json::{Map, Value};

use crate::effects::enrichment::Places;

/// The database of places.
pub struct MaxMindPlaces(Reader<Vec<u8>>);

/// The reason why the database of places is not usable.
#[derive(Debug, thiserror::Error)]
#[error("the database of places {path} is not readable: {error}")]
pub struct PlacesError {
    path: String,
    error: maxminddb::MaxMindDbError,
}

impl MaxMindPlaces {
    /// The database in this file.
    pub fn open(path: &str) -> Result<Self, PlacesError> {
        let opened = Reader::open_readfile(Path::new(path));
        opened.map(Self).map_err(|error| PlacesError { path: path.to_owned(), error })
    }
}

impl Places for MaxMindPlaces {
    fn find(&self, ip: IpAddr) -> Option<Value> {
        let city: geoip2::City<'_> = self.0.lookup(ip).ok()?.decode().ok()??;
        let known = [
            ("country", city.country.iso_code),
            ("region", city.subdivisions.first().and_then(|region| region.iso_code)),
            ("city", city.city.names.english),
            ("time_zone", city.location.time_zone),
        ];
        let known = known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Value::from(value?))));
        Some(Value::Object(known.collect::<Map<_, _>>()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../events/places.mmdb");

    #[test]
    fn a_place_is_found_as_far_as_it_is_known() {
        let places = MaxMindPlaces::open(FILE).expect("the test's database");
        let find = |ip: &str| places.find(ip.parse().expect("an address"));
        let berlin = json!({"country": "DE", "region": "BE", "city": "Berlin", "time_zone": "Europe/Berlin"});
        assert_eq!(find("192.0.2.7"), Some(berlin));
        assert_eq!(find("2001:db8::7"), Some(json!({"country": "GB"})));
        assert_eq!(find("198.51.100.7"), None);
    }

    #[test]
    fn what_is_no_database_is_told_by_its_path() {
        let error = MaxMindPlaces::open("/no/such/file.mmdb").err().expect("there is none").to_string();
        assert!(error.starts_with("the database of places /no/such/file.mmdb is not readable"), "{error}");
    }
}
