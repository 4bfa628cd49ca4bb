//! Doubts about GitHub's signatures.

use super::super::vectors::Vector;

const HEADER: &str = "X-Hub-Signature-256";

#[test]
fn refuses_every_doubt() {
    let vector = Vector::of("github");
    let signature = |change: fn(&str) -> String| vector.having(HEADER, change);
    for (why, vector) in [
        ("SHA-1 alone", vector.renamed(HEADER, "X-Hub-Signature").with("X-Hub-Signature", SHA1)),
        ("SHA-1 in its place", vector.with(HEADER, SHA1)),
        ("SHA-1 by name", signature(|it| it.replace("sha256=", "sha1="))),
        ("the old header", vector.renamed(HEADER, "X-Hub-Signature")),
        ("a prefix in capitals", signature(|it| it.replace("sha256=", "SHA256="))),
        ("no prefix", signature(|it| it["sha256=".len()..].into())),
        ("two prefixes", signature(|it| format!("sha256={it}"))),
        ("a prefix alone", signature(|_| "sha256=".into())),
        ("no hex", signature(|it| it.replace('7', "g"))),
        ("longer", signature(|it| format!("{it}00"))),
        ("a space", signature(|it| format!("{it} "))),
    ] {
        assert!(!vector.verifies(), "{why}");
    }
}

/// The true SHA-1 signature of the vector.
const SHA1: &str = "sha1=01dc10d0c83e72ed246219cdd91669667fe2ca59";
