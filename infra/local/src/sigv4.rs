//! AWS Signature Version 4, as far as a local cloud needs it: our own requests to the emulator are signed with it, and
//! the proxy in front of the emulator verifies every request by it.
//!
//! Deliberately absent: signatures in a query (presigned URLs) and the signatures of single chunks, which no tool of
//! the local cloud uses; and a bound on a request's age, as the key lives no longer than the run.

use axum::http::header::{AUTHORIZATION, HOST};
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode, utf8_percent_encode};
use sha2::{Digest, Sha256};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE: &str = "x-amz-date";
const CONTENT: &str = "x-amz-content-sha256";

/// The characters that the canonical form of a value escapes.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const ESCAPED_IN_PATHS: &AsciiSet = &ESCAPED.remove(b'/');

/// A request, as it is signed.
#[derive(Clone, Copy, Debug)]
pub struct Signable<'r> {
    /// The method.
    pub method: &'r Method,
    /// The path and the query.
    pub uri: &'r Uri,
    /// The headers, with those that sign it.
    pub headers: &'r HeaderMap,
    /// The body.
    pub body: &'r [u8],
}

/// The headers that sign a request to a service.
pub(crate) fn sign(
    request: &Signable<'_>,
    (id, secret): (&str, &str),
    region: &str,
    service: &str,
    now: jiff::Timestamp,
) -> HeaderMap {
    let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let mut added = HeaderMap::new();
    if let Ok(time) = HeaderValue::try_from(&time) {
        added.insert(DATE, time);
    }
    let mut headers = request.headers.clone();
    headers.extend(added.clone());
    let scope = Scope { date: &time[..8], region, service };
    let signed = [HOST.as_str(), DATE];
    let signature = signature(&Signable { headers: &headers, ..*request }, secret, &scope, &time, &signed);
    let header = format!(
        "{ALGORITHM} Credential={id}/{}, SignedHeaders={}, Signature={}",
        scope.text(),
        signed.join(";"),
        hex(&signature.finalize().into_bytes())
    );
    if let Ok(header) = HeaderValue::try_from(header) {
        added.insert(AUTHORIZATION, header);
    }
    added
}

/// Verifies that a request is signed with this secret under one of these ids. The error is a sentence.
pub fn verify(request: &Signable<'_>, ids: &[&str], secret: &str) -> Result<(), &'static str> {
    let text = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok());
    let header = text(AUTHORIZATION.as_str()).ok_or("it is not signed")?;
    let offered = Authorization::parse(header).ok_or("its authorization is not a signature of AWS's version 4")?;
    if !ids.contains(&offered.id) {
        return Err("its access key is not that of this run");
    }
    if !offered.signed.contains(&HOST.as_str()) {
        return Err("its signature does not cover the host");
    }
    let time = text(DATE).filter(|time| time.starts_with(offered.scope.date)).ok_or("it has no date")?;
    let expected = signature(request, secret, &offered.scope, time, &offered.signed);
    expected.verify_slice(&offered.signature).map_err(|_| "its signature is wrong")?;
    let hashed = text(CONTENT).filter(|hash| hash.len() == 64);
    match hashed {
        Some(hash) if hash != hex(&Sha256::digest(request.body)) => Err("its body is not the one that was signed"),
        _ => Ok(()),
    }
}

/// The id by which a request says that it is signed, and the service that it is signed for.
pub(crate) fn signer(headers: &HeaderMap) -> Option<(&str, &str)> {
    let header = headers.get(AUTHORIZATION)?.to_str().ok()?;
    Authorization::parse(header).map(|offered| (offered.id, offered.scope.service))
}

/// The credential scope: where and when a signature is good.
struct Scope<'s> {
    date: &'s str,
    region: &'s str,
    service: &'s str,
}

impl Scope<'_> {
    fn text(&self) -> String {
        format!("{}/{}/{}/aws4_request", self.date, self.region, self.service)
    }
}

/// The authorization header, taken apart.
struct Authorization<'h> {
    id: &'h str,
    scope: Scope<'h>,
    signed: Vec<&'h str>,
    signature: Vec<u8>,
}

impl<'h> Authorization<'h> {
    fn parse(header: &'h str) -> Option<Self> {
        let parts = header.strip_prefix(ALGORITHM)?;
        let part = |name: &str| parts.split(',').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
        let mut credential = part("Credential")?.split('/');
        let id = credential.next()?;
        let scope = Scope { date: credential.next()?, region: credential.next()?, service: credential.next()? };
        let ended = credential.next() == Some("aws4_request") && credential.next().is_none();
        let signed = part("SignedHeaders")?.split(';').collect();
        ended.then_some(Self { id, scope, signed, signature: unhex(part("Signature")?)? })
    }
}

fn signature(request: &Signable<'_>, secret: &str, scope: &Scope<'_>, time: &str, signed: &[&str]) -> Hmac<Sha256> {
    let canonical = hex(&Sha256::digest(canonical(request, scope.service, signed)));
    let key = [scope.date, scope.region, scope.service, "aws4_request"]
        .iter()
        .fold(format!("AWS4{secret}").into_bytes(), |key, part| mac(&key, part).finalize().into_bytes().to_vec());
    mac(&key, &format!("{ALGORITHM}\n{time}\n{}\n{canonical}", scope.text()))
}

fn canonical(request: &Signable<'_>, service: &str, signed: &[&str]) -> String {
    let path = request.uri.path();
    // S3 alone signs the path as it is sent.
    let path = if service == "s3" { path.to_owned() } else { utf8_percent_encode(path, ESCAPED_IN_PATHS).to_string() };
    let headers: String = signed.iter().map(|name| format!("{name}:{}\n", values(request.headers, name))).collect();
    let content = match request.headers.get(CONTENT).and_then(|value| value.to_str().ok()) {
        Some(content) => content.to_owned(),
        None => hex(&Sha256::digest(request.body)),
    };
    let (method, query) = (request.method, query(request.uri.query().unwrap_or_default()));
    format!("{method}\n{path}\n{query}\n{headers}\n{}\n{content}", signed.join(";"))
}

/// The values of a header, joined, with single spaces.
fn values(headers: &HeaderMap, name: &str) -> String {
    let value = |value: &HeaderValue| {
        String::from_utf8_lossy(value.as_bytes()).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    headers.get_all(name).iter().map(value).collect::<Vec<_>>().join(",")
}

fn query(query: &str) -> String {
    let escape = |text: &str| percent_encode(&percent_decode_str(text).collect::<Vec<_>>(), ESCAPED).to_string();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut pairs: Vec<_> = pairs.map(|(name, value)| (escape(name), escape(value))).collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

fn mac(key: &[u8], content: &str) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(content.as_bytes());
    mac
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of AWS's documentation ("get-vanilla-query-order-key-case" of its test suite).
    #[test]
    fn it_is_the_signature_of_awss_own_example() {
        let headers = headers(&[("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")]);
        let uri: Uri = "/?Param2=value2&Param1=value1".parse().expect("a URI");
        let request = Signable { method: &Method::GET, uri: &uri, headers: &headers, body: b"" };
        let scope = Scope { date: "20150830", region: "us-east-1", service: "service" };
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        let made = signature(&request, secret, &scope, "20150830T123600Z", &["host", "x-amz-date"]);
        assert_eq!(
            hex(&made.finalize().into_bytes()),
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"
        );
    }

    #[test]
    fn what_is_signed_verifies_and_nothing_else_does() {
        let uri: Uri = "/a/b%20c?x=1&list-type=2".parse().expect("a URI");
        let bare = headers(&[("host", "127.0.0.1:1"), ("x-amz-target", "A.B")]);
        let request = Signable { method: &Method::POST, uri: &uri, headers: &bare, body: b"{}" };
        let mut signed = bare.clone();
        signed.extend(sign(&request, ("ID", "secret"), "us-east-1", "ssm", jiff::Timestamp::UNIX_EPOCH));
        let good = Signable { headers: &signed, ..request };
        assert_eq!(verify(&good, &["OTHER", "ID"], "secret"), Ok(()));
        assert!(verify(&good, &["OTHER"], "secret").is_err(), "another id");
        assert!(verify(&good, &["ID"], "other").is_err(), "another secret");
        assert!(verify(&Signable { body: b"{ }", ..good }, &["ID"], "secret").is_err(), "another body");
        assert!(verify(&Signable { method: &Method::PUT, ..good }, &["ID"], "secret").is_err(), "another method");
        let elsewhere: Uri = "/a/b%20d?x=1&list-type=2".parse().expect("a URI");
        assert!(verify(&Signable { uri: &elsewhere, ..good }, &["ID"], "secret").is_err(), "another path");
        let mut foreign = signed.clone();
        foreign.insert(HOST, HeaderValue::from_static("evil.example"));
        assert!(verify(&Signable { headers: &foreign, ..good }, &["ID"], "secret").is_err(), "another host");
        assert!(verify(&Signable { headers: &bare, ..good }, &["ID"], "secret").is_err(), "unsigned");
        for forged in [
            "Bearer x",
            "AWS4-HMAC-SHA256 Credential=ID/19700101/us-east-1/ssm/aws4_request, SignedHeaders=host, Signature=0",
        ] {
            foreign.insert(HOST, HeaderValue::from_static("127.0.0.1:1"));
            foreign.insert(AUTHORIZATION, HeaderValue::from_str(forged).expect("a header"));
            assert!(verify(&Signable { headers: &foreign, ..good }, &["ID"], "secret").is_err(), "{forged}");
        }
    }

    #[test]
    fn a_body_that_is_signed_by_its_hash_must_have_it() {
        let uri = Uri::from_static("/bucket/key");
        let bare = headers(&[("host", "h"), (CONTENT, Box::leak(hex(&Sha256::digest(b"zip")).into_boxed_str()))]);
        let request = Signable { method: &Method::PUT, uri: &uri, headers: &bare, body: b"zip" };
        let mut signed = bare.clone();
        signed.extend(sign(&request, ("ID", "secret"), "us-east-1", "s3", jiff::Timestamp::UNIX_EPOCH));
        let good = Signable { headers: &signed, ..request };
        assert_eq!(verify(&good, &["ID"], "secret"), Ok(()));
        assert!(verify(&Signable { body: b"other", ..good }, &["ID"], "secret").is_err());
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
        pairs.collect()
    }
}
