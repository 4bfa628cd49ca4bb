//! Requests that are broken on purpose: Prism must refuse each of them, or its acceptance says nothing.

use anyhow::{Context, Result};
use serde_json::Value;

use super::description::ApiOperation;
use super::wire::WireRequest;

/// What a request is broken in, each by itself.
pub const BROKEN_IN: [&str; 4] = ["auth", "header", "content type", "field"];

/// One of the ways in which a request is to be broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breakage {
    /// The request, broken so.
    Broken(WireRequest),
    /// The description demands nothing that could be broken so, for this reason.
    NotDemanded(&'static str),
}

/// The request, broken in each of [`BROKEN_IN`], in this order: in its credentials, in another header that the operation
/// demands, in its content type, and in one field that the operation demands. What the operation demands and the request
/// does not have is an error: it would not be checked.
pub fn breakages(request: &WireRequest, operation: &ApiOperation) -> Result<[Breakage; 4]> {
    let without =
        |what| format!("the request cannot be broken in its {what}: it does not have what the description demands");
    Ok([
        without_credentials(request).map(Breakage::Broken).with_context(|| without("auth"))?,
        without_header(request, operation),
        match request.body.is_empty() {
            true => Breakage::NotDemanded("the request has no body"),
            false => Breakage::Broken(request.clone().with_header("content-type", "application/xml")),
        },
        without_demanded(request, operation).with_context(|| without("field"))?,
    ])
}

/// The header that holds the credentials, and the field that holds them for partners that take them in the body.
const AUTHORIZATION: &str = "authorization";
const KEY: &str = "key";

fn without_credentials(request: &WireRequest) -> Option<WireRequest> {
    match request.header(AUTHORIZATION) {
        Some(_) => Some(request.clone().without_header(AUTHORIZATION)),
        None => without_field(request, KEY),
    }
}

/// A header that is sent for Prism alone is not ours, so nothing is shown by its absence.
fn without_header(request: &WireRequest, operation: &ApiOperation) -> Breakage {
    let mut ours = operation.headers.iter().filter(|name| *name != AUTHORIZATION);
    let demanded = ours.find(|name| request.header(name).is_some());
    match demanded {
        Some(name) => Breakage::Broken(request.clone().without_header(name)),
        None => Breakage::NotDemanded("the description demands no header of ours besides the credentials"),
    }
}

/// Nothing is the error that the operation demands fields, and the request has none of them.
fn without_demanded(request: &WireRequest, operation: &ApiOperation) -> Option<Breakage> {
    if request.body.is_empty() {
        return Some(Breakage::NotDemanded("the request has no body"));
    }
    let in_body = request.header(AUTHORIZATION).is_none();
    let demanded: Vec<&String> = operation.fields.iter().filter(|field| !in_body || *field != KEY).collect();
    if demanded.is_empty() {
        return Some(Breakage::NotDemanded("the description demands no field"));
    }
    demanded.into_iter().find_map(|field| without_field(request, field)).map(Breakage::Broken)
}

fn without_field(request: &WireRequest, field: &str) -> Option<WireRequest> {
    let body = match serde_json::from_str(&request.body) {
        Ok(Value::Object(mut fields)) => {
            fields.remove(field)?;
            Value::Object(fields).to_string()
        }
        _ => {
            let is_other = |pair: &&str| pair.split('=').next() != Some(field);
            let kept: Vec<&str> = request.body.split('&').filter(is_other).collect();
            kept.join("&")
        }
    };
    (body != request.body).then(|| WireRequest { body, ..request.clone() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn request() -> WireRequest {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        WireRequest {
            method: "POST".into(),
            url: "https://api.example.com/send".into(),
            headers: vec![
                header("authorization", "Basic x"),
                header("revision", "1"),
                header("content-type", "application/json"),
            ],
            body: r#"{"message":"m","to":"a"}"#.into(),
        }
    }

    fn operation(headers: &[&str], fields: &[&str]) -> ApiOperation {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        ApiOperation { target: "/send".into(), headers: owned(headers), fields: owned(fields) }
    }

    #[test]
    fn each_way_changes_another_thing() {
        let broken = breakages(&request(), &operation(&["authorization", "revision"], &["message"])).expect("four");
        let requests = broken.map(|broken| match broken {
            Breakage::Broken(request) => request.text(),
            Breakage::NotDemanded(why) => panic!("{why}"),
        });
        assert!(!requests[0].contains("authorization") && requests[0].contains("revision"));
        assert!(!requests[1].contains("revision") && requests[1].contains("authorization"));
        assert!(requests[2].contains("content-type: application/xml"));
        assert!(requests[3].ends_with("\n{\"to\":\"a\"}\n"));
        let distinct: BTreeSet<String> = requests.into_iter().chain([request().text()]).collect();
        assert_eq!(distinct.len(), 5, "no two are the same, and none is the request");
    }

    #[test]
    fn what_is_not_demanded_is_said_and_repeats_nothing() {
        let broken = breakages(&request(), &operation(&["authorization", "token"], &[])).expect("four");
        assert!(matches!(broken[1], Breakage::NotDemanded(why) if why.contains("no header of ours")));
        assert!(matches!(broken[3], Breakage::NotDemanded(why) if why.contains("no field")));
        let question = WireRequest { method: "GET".into(), body: String::new(), ..request() };
        let broken = breakages(&question, &operation(&[], &[])).expect("four");
        assert!(matches!(broken[2], Breakage::NotDemanded("the request has no body")));
        assert!(matches!(broken[3], Breakage::NotDemanded("the request has no body")));
    }

    #[test]
    fn what_cannot_be_broken_is_an_error() {
        assert!(breakages(&request(), &operation(&[], &["text"])).is_err(), "it lacks what is demanded");
        let open = request().without_header("authorization");
        assert!(breakages(&open, &operation(&[], &["message"])).is_err(), "it has no credentials");
    }

    #[test]
    fn the_key_in_a_body_is_the_credentials_and_no_other_field() {
        let request =
            WireRequest { body: r#"{"key":"k","message":"m"}"#.into(), ..request() }.without_header("authorization");
        let broken = breakages(&request, &operation(&[], &["key", "message"])).expect("four");
        let body = |breakage: &Breakage| match breakage {
            Breakage::Broken(request) => request.body.clone(),
            Breakage::NotDemanded(why) => panic!("{why}"),
        };
        assert_eq!((body(&broken[0]).as_str(), body(&broken[3]).as_str()), (r#"{"message":"m"}"#, r#"{"key":"k"}"#));
        let form = WireRequest { body: "To=a&From=b".into(), ..request };
        assert_eq!(without_field(&form, "To").expect("it is there").body, "From=b");
        assert_eq!(without_field(&form, "Text"), None);
    }
}
