//! Doubts about Stripe's signatures.

use super::super::vectors::Vector;

const HEADER: &str = "Stripe-Signature";

/// The time, the signature of the secret before, that of the live one, and a made-up `v0`.
fn parts(vector: &Vector) -> [String; 4] {
    let parts: Vec<String> = vector.headers[HEADER].split(',').map(str::to_owned).collect();
    parts.try_into().expect("the vector has four")
}

#[test]
fn any_listed_signature_will_do_in_any_order() {
    let vector = Vector::of("stripe");
    let [time, old, live, _] = parts(&vector);
    for header in [format!("{time},{live}"), format!("{time},{live},{old}"), format!("{live},{time},v2=00")] {
        assert!(vector.with(HEADER, &header).verifies(), "{header}");
    }
}

#[test]
fn refuses_every_doubt() {
    let vector = Vector::of("stripe");
    let [time, old, live, made_up] = parts(&vector);
    let hex = &live["v1=".len()..];
    for (why, header) in [
        ("no time", live.clone()),
        ("no signature", time.clone()),
        ("an old secret only", format!("{time},{old}")),
        ("v0 only", format!("{time},{made_up}")),
        ("a true signature as v0", format!("{time},v0={hex}")),
        ("a true signature as v2", format!("{time},v2={hex}")),
        ("a true signature as V1", format!("{time},V1={hex}")),
        ("the time twice", format!("{time},{time},{live}")),
        ("two times", format!("t=1,{time},{live}")),
        ("another time", format!("t=1680064029,{live}")),
        ("a time with a sign", format!("{},{live}", time.replace("t=", "t=+"))),
        ("a time with a zero", format!("{},{live}", time.replace("t=", "t=0"))),
        ("a time of no number", format!("t=now,{live}")),
        ("an empty signature", format!("{time},v1=")),
        ("no hex", format!("{time},v1={}", "zz".repeat(32))),
        ("in capitals", format!("{time},v1={}", hex.to_uppercase())),
        ("longer", format!("{time},{live}00")),
        ("a space", format!("{time}, {live}")),
        ("an item of no pair", format!("{time},{live},x")),
        ("too many", format!("{time},{}{live}", "v1=00,".repeat(16))),
    ] {
        assert!(!vector.with(HEADER, header).verifies(), "{why}");
    }
}
