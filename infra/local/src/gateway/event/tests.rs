use axum::http::Request;

use super::*;

fn event(request: axum::http::request::Builder, body: &[u8]) -> Value {
    let (parts, ()) = request.body(()).expect("a request").into_parts();
    let route = Match {
        key: "POST /v1/events/{source}".into(),
        function: "intake",
        parameters: BTreeMap::from([("source".into(), "shop".into())]),
    };
    make(&parts, &route, body)
}

fn post() -> axum::http::request::Builder {
    Request::post("/v1/events/shop")
}

#[test]
fn repeated_headers_are_joined_and_cookies_stand_apart() {
    let event = event(post().header("X-Tag", "a").header("x-tag", "b").header("Cookie", "k=1; l=2"), b"");
    assert_eq!(event["headers"]["x-tag"], "a,b");
    assert_eq!(event["headers"].get("cookie"), None);
    assert_eq!(event["cookies"], json!(["k=1", "l=2"]));
}

#[test]
fn what_is_absent_is_left_out() {
    let event = event(post(), b"");
    for key in ["body", "cookies", "queryStringParameters"] {
        assert_eq!(event.get(key), None, "{key}");
    }
    assert_eq!(event["isBase64Encoded"], false);
    assert_eq!(event["rawQueryString"], "");
}

#[test]
fn only_text_types_stay_text() {
    for kind in ["application/json; charset=utf-8", "text/plain", "Application/XML"] {
        let event = event(post().header("content-type", kind), b"{}");
        assert_eq!((&event["body"], &event["isBase64Encoded"]), (&json!("{}"), &json!(false)), "{kind}");
    }
    for kind in ["application/x-www-form-urlencoded", "application/cloudevents+json"] {
        let event = event(post().header("content-type", kind), b"{}");
        assert_eq!((&event["body"], &event["isBase64Encoded"]), (&json!("e30="), &json!(true)), "{kind}");
    }
    assert_eq!(event(post(), b"{}")["isBase64Encoded"], true);
}

#[test]
fn bytes_that_are_not_utf8_are_not_mangled() {
    let event = event(post().header("content-type", "application/json"), b"\xff\x00");
    assert_eq!((&event["body"], &event["isBase64Encoded"]), (&json!("/wA="), &json!(true)));
}

#[test]
fn query_parameters_are_decoded_and_joined() {
    let event = event(Request::post("/v1/events/shop?a=1&b=x%20y+z&a=2&c"), b"");
    assert_eq!(event["rawQueryString"], "a=1&b=x%20y+z&a=2&c");
    assert_eq!(event["queryStringParameters"], json!({"a": "1,2", "b": "x y z", "c": ""}));
}

#[test]
fn the_context_says_what_was_asked() {
    let event = event(post().header("user-agent", "curl/8").header("host", "h:1"), b"");
    let context = &event["requestContext"];
    assert_eq!(context["http"]["method"], "POST");
    assert_eq!(context["http"]["path"], "/v1/events/shop");
    assert_eq!(context["http"]["userAgent"], "curl/8");
    assert_eq!(context["domainName"], "h:1");
    assert_eq!(event["pathParameters"]["source"], "shop");
    assert_eq!(event["routeKey"], context["routeKey"]);
}
