//! What we build on: known sources, licences that we may ship, no second TLS. `make deny` looks closer.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::fixtures::root;

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect("a file of the project")
}

/// The texts on each line of a list in `deny.toml`, by the words before it.
fn list(start: &str) -> Vec<Vec<String>> {
    let text = read("deny.toml");
    let (_, after) = text.split_once(start).unwrap_or_else(|| panic!("deny.toml has no {start}"));
    let lines = after.lines().take_while(|line| !line.starts_with(']'));
    lines.map(|line| line.split('"').skip(1).step_by(2).map(str::to_owned).collect()).collect()
}

/// Each package of `Cargo.lock`: its name, its version, where it comes from.
fn packages() -> Vec<(String, String, Option<String>)> {
    let text = read("Cargo.lock");
    let value = |package: &str, key: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(&format!("{key} = \"")))?;
        line.strip_suffix('"').map(str::to_owned)
    };
    let package = |block: &str| Some((value(block, "name")?, value(block, "version")?, value(block, "source")));
    text.split("[[package]]").filter_map(package).collect()
}

#[test]
fn everything_comes_from_the_registry() {
    let packages = packages();
    assert!(packages.len() > 100, "the lock file was not read");
    let sources: BTreeSet<&str> = packages.iter().filter_map(|(.., source)| source.as_deref()).collect();
    let one = sources.len() == 1 && sources.iter().all(|source| source.starts_with("registry+"));
    assert!(one, "packages come from {sources:?}");
    let manifest = read("Cargo.toml");
    let members = manifest.split_once("members = [").and_then(|(_, rest)| rest.split_once(']')).expect("members").0;
    let own = packages.iter().filter(|(.., source)| source.is_none()).count();
    assert_eq!(own, members.matches('"').count() / 2, "a package from nowhere");
}

/// The stack that the SDK's default features drag in, with its advisories, and whatever links OpenSSL.
#[test]
fn there_is_one_http_and_one_tls_and_both_are_current() {
    let packages = packages();
    let banned = list("deny = [");
    assert!(banned.len() >= 3, "deny.toml was not read");
    for rule in banned.iter().filter(|rule| !rule.is_empty()) {
        let below = rule.get(1).map(|version| number(version.trim_start_matches('<')));
        let met = |(name, version, _): &&(String, String, Option<String>)| {
            *name == rule[0] && below.as_ref().is_none_or(|below| number(version) < *below)
        };
        assert_eq!(packages.iter().find(met), None, "banned by {rule:?}");
    }
    for once in ["hyper", "rustls", "h2", "http", "tokio", "aws-lc-rs", "subtle", "hmac", "sha2"] {
        let versions: Vec<_> =
            packages.iter().filter(|(name, ..)| name == once).map(|(_, version, _)| version).collect();
        assert!(versions.len() <= 1, "{once} is there as {versions:?}");
    }
}

fn number(version: &str) -> Vec<u64> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// What cargo says that these packages are built from, line by line.
fn tree(of: &[&str]) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = Command::new(cargo)
        .args(["tree", "--locked", "--offline", "--prefix", "none"])
        .args(of)
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let text = String::from_utf8(tree.stdout).expect("text");
    let lines = text.lines().map(|line| line.trim_end_matches(" (*)")).filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// The packages of a tree that reach AWS. `aws_lambda_events` only has the types of its events, and AWS-LC is cryptography.
fn reaching_aws(of: &[&str]) -> Vec<String> {
    let tree = tree(&[of, &["--edges", "normal", "--format", "{lib}"]].concat());
    assert!(tree.contains("serde_json"), "the tree was not read: {tree:?}");
    let of_aws = |name: &String| {
        let sdk =
            name.starts_with("aws_") && !["aws_lambda_events", "aws_lc_rs", "aws_lc_sys"].contains(&name.as_str());
        sdk || ["lambda_runtime", "hyper", "rustls"].contains(&name.as_str())
    };
    tree.into_iter().filter(of_aws).collect()
}

#[test]
fn the_simulation_is_built_without_the_aws_sdk() {
    assert_eq!(reaching_aws(&["--package", "sim"]), [""; 0]);
}

/// Cargo, `cargo lambda` and so `sam build` take the default features.
#[test]
fn each_function_is_built_with_the_aws_sdk_unless_told_otherwise() {
    for function in ["intake", "processor", "replay"] {
        let built = reaching_aws(&["--package", function]);
        for needed in ["aws_config", "aws_sdk_dynamodb", "aws_sdk_sqs", "lambda_runtime"] {
            assert!(built.iter().any(|name| name == needed), "{function} is built without {needed}");
        }
        assert_eq!(reaching_aws(&["--package", function, "--no-default-features"]), [""; 0], "{function}");
    }
}

#[test]
fn every_licence_is_one_that_we_may_ship() {
    let allowed = list("allow = [").concat().into_iter().collect();
    let lines = tree(&["--workspace", "--format", "{p}|{l}"]);
    assert!(lines.len() > 100, "the tree was not read");
    for line in lines {
        let (package, licence) = line.split_once('|').expect("a package and its licence");
        assert!(may_ship(licence, &allowed), "{package} is under `{licence}`");
    }
}

/// Whether an SPDX expression can be met by the allowed licences alone: AND binds tighter than OR, and
/// the `/` of older manifests means OR.
fn may_ship(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let met = either(&mut words, allowed);
    met && words.next().is_none()
}

type Words<'w> = std::iter::Peekable<std::str::SplitWhitespace<'w>>;

fn either(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut met = both(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        met |= both(words, allowed);
    }
    met
}

fn both(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut met = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    if words.next_if_eq(&"(").is_some() {
        let met = either(words, allowed);
        return words.next_if_eq(&")").is_some() && met;
    }
    let known = words.next().is_some_and(|licence| allowed.contains(licence));
    // `Apache-2.0 WITH LLVM-exception` only permits more.
    if words.next_if_eq(&"WITH").is_some() {
        words.next();
    }
    known
}

#[test]
fn licence_expressions_are_read_as_spdx_says() {
    let allowed: BTreeSet<String> = ["MIT".to_owned(), "ISC".to_owned()].into();
    for good in
        ["MIT", "GPL-3.0 OR MIT", "MIT/Apache-2.0", "MIT AND ISC", "(GPL-3.0 OR ISC) AND MIT", "MIT OR GPL-3.0 AND X"]
    {
        assert!(may_ship(good, &allowed), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT)", "(MIT OR ISC) AND GPL-3.0", "MIT ISC"] {
        assert!(!may_ship(bad, &allowed), "{bad}");
    }
}

/// What pip installs runs as the developer. A file that is not the one that was looked at is not installed.
#[test]
fn every_python_package_is_known_by_its_hash() {
    let folder = root().join("infra/local");
    let lists = ["requirements.txt", "requirements-check.txt", "requirements-deploy.txt", "requirements-test.txt"];
    for list in lists {
        let text = std::fs::read_to_string(folder.join(list)).expect("a list of packages");
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(lines.iter().any(|line| line.contains("==")), "{list} is empty");
        for pair in lines.windows(2).filter(|pair| pair[0].contains("==")) {
            assert!(
                pair[0].ends_with(" \\") && pair[1].trim_start().starts_with("--hash=sha256:"),
                "{list}: {}",
                pair[0]
            );
        }
        assert!(lines.last().is_some_and(|last| last.contains("--hash")), "{list}: the last one, too");
        assert!(!text.contains("://"), "{list}: no other place to load from");
    }
    let pip = std::fs::read_to_string(folder.join("src/tools.rs")).expect("the installer");
    assert!(pip.contains("\"--require-hashes\""), "pip checks them");
}

/// Nor does npm: the compiler of the sample in TypeScript and senders' libraries, from whatever registry it is configured with.
#[test]
fn every_npm_package_is_known_by_its_hash() {
    for (folder, wanted) in [("infra/samples/invoke-typescript", "/typescript"), ("tests/providers", "/shopify-api")] {
        let lock: Value = serde_json::from_str(&read(&format!("{folder}/package-lock.json"))).expect("JSON");
        let packages = lock["packages"].as_object().expect("packages");
        let installed: Vec<_> = packages.iter().filter(|(path, _)| !path.is_empty()).collect();
        assert!(installed.iter().any(|(path, _)| path.ends_with(wanted)), "{installed:?}");
        for (path, package) in installed {
            assert!(package["integrity"].as_str().is_some_and(|hash| hash.starts_with("sha512-")), "{path}");
            assert_eq!(package.get("resolved"), None, "{path} names a registry");
        }
    }
}
