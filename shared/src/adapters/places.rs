//! Places of IP addresses, from a file in MaxMind's format.

use std::net::IpAddr;
use std::path::Path;

use maxminddb::{Reader, geoip2};
use serde_json::{Map, Value};

use crate::ports::Places;

/// The database of places.
pub struct MaxMindPlaces(Reader<Vec<u8>>);

/// The database of places is not readable.
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
