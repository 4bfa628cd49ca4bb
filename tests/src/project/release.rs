//! What `make release` puts into a package, as far as no binary is built for it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::fixtures::root;

/// Runs a line of Python beside the script's functions, and returns what it prints.
fn python(line: &str, arguments: &[&Path]) -> String {
    let script = format!("import pathlib, sys; sys.path.insert(0, 'infra/release'); import release; {line}");
    let mut python = Command::new("python3");
    python.args(["-B", "-c", &script]).args(arguments).current_dir(root());
    let ran = python.output().expect("python3 runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("text")
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("release-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// The released template is the template: only where the code is, and for which machine, differs.
#[test]
fn the_template_of_a_release_takes_zips_and_nothing_else_differs() {
    let released = python("print(release.template('x86_64'), end='')", &[]);
    let released: Value = serde_saphyr::from_str(&released).expect("YAML");
    let text = std::fs::read_to_string(root().join("infra/template.yaml")).expect("the template");
    let mut expected: Value = serde_saphyr::from_str(&text).expect("YAML");
    expected["Parameters"]["Architecture"]["Default"] = "x86_64".into();
    let mut functions = 0;
    for resource in expected["Resources"].as_object_mut().expect("resources").values_mut() {
        if let Some(code) = resource["Properties"].get("CodeUri").and_then(Value::as_str) {
            let binary = code.strip_prefix("../functions/").expect("a function's folder").to_owned();
            resource["Properties"]["CodeUri"] = format!("{binary}.zip").into();
            resource.as_object_mut().expect("a resource").remove("Metadata");
            functions += 1;
        }
    }
    assert_eq!((functions, &released), (4, &expected));
}

#[test]
fn a_zip_has_the_same_bytes_whenever_and_wherever_it_is_packed() {
    let packed: Vec<Vec<u8>> = ["one", "another"]
        .map(|name| {
            let folder = folder(name);
            for file in ["b", "a"] {
                std::fs::write(folder.join(file), file.repeat(1000)).expect("a file");
            }
            let line = "f = pathlib.Path(sys.argv[1]); release.pack(f / 'z.zip', {n: f / n for n in sys.argv[2:]})";
            let order: &[&Path] =
                if name == "one" { &[Path::new("a"), Path::new("b")] } else { &[Path::new("b"), Path::new("a")] };
            python(line, &[&[folder.as_path()], order].concat());
            let zip = std::fs::read(folder.join("z.zip")).expect("a zip");
            std::fs::remove_dir_all(folder).expect("it is there");
            zip
        })
        .into();
    assert!(packed[0] == packed[1] && packed[0].starts_with(b"PK"));
}

/// A command that wants this machine's own glibc starts on few others.
#[test]
fn the_command_is_built_for_an_older_glibc_and_checked() {
    let built = |target: &str| python(&format!("print(*release.command_build('cargo-lambda', '{target}'))"), &[]);
    for target in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"] {
        let command = built(target);
        assert!(command.starts_with("cargo-lambda lambda build ") && command.contains(&format!("{target}.2.28")));
    }
    assert!(built("aarch64-apple-darwin").starts_with("cargo build "));
    let folder = folder("glibc");
    let binary = folder.join("ledgerline");
    for (newest, taken) in [("2.4", true), ("2.28", true), ("2.39", false)] {
        let wanted = ["2.2.5", "2.17", newest].map(|version| format!("\0GLIBC_{version}"));
        std::fs::write(&binary, format!("ELF{}\0", wanted.concat())).expect("a file");
        let line = "try:\n  release.check_glibc(pathlib.Path(sys.argv[1]), release.COMMANDS_GLIBC)\n\
                    except SystemExit as why:\n  print(why)";
        let told = python(&format!("\n{line}"), &[&binary]);
        assert_eq!(told.is_empty(), taken, "{newest}: {told}");
        assert!(taken || told.contains("ledgerline needs glibc 2.39, and may need 2.28 at most"), "{told}");
    }
    std::fs::remove_dir_all(folder).expect("it is there");
}

#[test]
fn the_bill_of_materials_has_each_linked_crate_with_its_hash() {
    let bill = python("print(release.bill_of_materials('x86_64-unknown-linux-gnu'))", &[]);
    let bill: Value = serde_json::from_str(&bill).expect("JSON");
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let components = bill["components"].as_array().expect("components");
    let named = |name: &str| components.iter().find(|component| component["name"] == name);
    for linked in ["rustls", "aws-sdk-dynamodb", "aws-lc-sys", "tokio", "clap"] {
        let component = named(linked).unwrap_or_else(|| panic!("{linked} is linked"));
        assert_eq!(component["hashes"][0]["content"].as_str().map(str::len), Some(64), "{linked}");
        assert!(component["licenses"][0]["expression"].is_string(), "{linked}");
    }
    for tool in ["proptest", "insta", "bolero", "axum"] {
        assert!(named(tool).is_none(), "{tool} is in no binary that is released");
    }
    assert_eq!(bill["dependencies"].as_array().map(Vec::len), Some(components.len() + 1));
}
