//! Requests that are broken on purpose: Prism must refuse each of them, or its acceptance says nothing.

use serde_json::Value;

use super::description::ApiOperation;
use super::wire::WireRequest;

/// A request that is broken in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breakage {
    /// What is broken: `auth`, `header`, `content type` or `field`.
    pub what: &'static str,
    /// The broken request.
    pub request: WireRequest,
}

/// The request, broken in its credentials, a header, its content type and a field that the operation demands.
///
/// Where an operation demands no header of its own, the header of the credentials is misspelled; and a question without
/// a body can be broken neither in its content type nor in a field.
pub fn breakages(request: &WireRequest, operation: &ApiOperation) -> Vec<Breakage> {
    let broken = |what, request: Option<WireRequest>| request.map(|request| Breakage { what, request });
    let in_body = request.header("authorization").is_none();
    let mut demanded = operation.fields.iter().filter(|field| !in_body || *field != KEY);
    let all = [
        broken("auth", without_credentials(request)),
        broken("header", without_header(request, operation)),
        broken("content type", (!request.body.is_empty()).then(|| other_type(request))),
        broken("field", demanded.find_map(|field| without_field(request, field))),
    ];
    all.into_iter().flatten().collect()
}

/// The field that holds the credentials of partners that take them in the body.
const KEY: &str = "key";

/// The credentials are a header, or a field of the body.
fn without_credentials(request: &WireRequest) -> Option<WireRequest> {
    match request.header("authorization") {
        Some(_) => Some(request.clone().without_header("authorization")),
        None => without_field(request, KEY),
    }
}

fn without_header(request: &WireRequest, operation: &ApiOperation) -> Option<WireRequest> {
    let demanded = operation.headers.iter().find(|name| request.header(name).is_some());
    let name = demanded.map_or("authorization", String::as_str);
    match request.header(name) {
        Some(value) => Some(request.clone().without_header(name).with_header(&format!("x-{name}"), value)),
        None => Some(request.clone().with_header("content-type", "")),
    }
}

fn other_type(request: &WireRequest) -> WireRequest {
    request.clone().with_header("content-type", "application/xml")
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
    use super::*;

    #[test]
    fn each_way_changes_one_thing() {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let request = WireRequest {
            method: "POST".into(),
            url: "https://api.example.com/send".into(),
            headers: vec![
                header("authorization", "Basic x"),
                header("revision", "1"),
                header("content-type", "application/json"),
            ],
            body: r#"{"message":"m","to":"a"}"#.into(),
        };
        let operation =
            ApiOperation { target: "/send".into(), headers: vec!["revision".into()], fields: vec!["message".into()] };
        let broken = breakages(&request, &operation);
        assert_eq!(
            broken.iter().map(|broken| broken.what).collect::<Vec<_>>(),
            ["auth", "header", "content type", "field"]
        );
        assert!(broken.iter().all(|broken| broken.request != request));
        assert_eq!(broken[3].request.body, r#"{"to":"a"}"#);
        let form = WireRequest { body: "To=a&From=b".into(), ..request };
        assert_eq!(without_field(&form, "To").expect("it is there").body, "From=b");
        assert_eq!(without_field(&form, "Text"), None);
    }
}
