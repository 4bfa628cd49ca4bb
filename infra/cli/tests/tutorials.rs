//! The tutorials in the documents: their files are good, and the command prints what they quote.

use std::path::{Path, PathBuf};
use std::process::Command;

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    std::fs::read_to_string(path).expect("a document")
}

/// A block of code in a document, and the line of text before it.
fn blocks(text: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = text.split("\n```").collect();
    parts
        .chunks(2)
        .filter(|pair| pair.len() == 2)
        .filter_map(|pair| Some((pair[0].trim_end().lines().last()?, pair[1].split_once('\n')?.1)))
        .collect()
}

/// Writes the files that a tutorial shows: each stands below a line that begins with its path, below `folder`.
fn write_files(text: &str, folder: &str, into: &Path) {
    let paths = |line: &str| -> Option<String> {
        let path = line.split('`').nth(1)?;
        path.starts_with(&format!("{folder}/")).then(|| path.to_owned())
    };
    let files = blocks(text).into_iter().filter_map(|(line, code)| Some((paths(line)?, code)));
    for (path, code) in files {
        let path = into.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, format!("{code}\n")).expect("it is written");
    }
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn ledgerline(folder: &Path, arguments: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ledgerline"));
    let output = command.current_dir(folder).args(arguments.split(' ')).output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments}: {told}{}", String::from_utf8_lossy(&output.stderr));
    told
}

#[test]
fn a_partner_that_is_not_in_the_catalogue_is_written_as_the_tutorial_says() {
    let text = document("PARTNERS.md");
    let (own, catalogue) = text.split_once("\n## 7.").expect("the last step");
    let folder = scratch("parcels");
    write_files(own, "parcels", &folder);
    assert!(ledgerline(&folder, "flows check parcels").contains("no problems in 1 flow, 3 files"));
    let plan = ledgerline(&folder, "flows plan parcels/samples/shipped.json --in parcels");
    assert!(text.contains(&plan), "the page quotes another plan than this:\n{plan}");

    write_files(catalogue, "parcels", &folder);
    assert!(ledgerline(&folder, "flows check parcels").contains("no problems in 1 flow, 4 files"));
    let same = ledgerline(&folder, "flows plan parcels/samples/shipped.json --in parcels");
    let uses = |plan: &str| plan.replace("uses resend; ", "");
    assert_eq!(uses(&same), uses(&plan), "a file of the catalogue says the same in another place");
    diff_of_the_move(own, &folder);
}

/// What `flows diff` says of the last step: the partner has a variable that the integration did not have.
fn diff_of_the_move(own: &str, folder: &Path) {
    let before = scratch("parcels-before");
    write_files(own, "parcels", &before);
    let before = before.join("parcels").to_string_lossy().into_owned();
    let exit = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ledgerline"));
        let ran = command.current_dir(folder).args(["flows", "diff", &before, "parcels"]).output().expect("it runs");
        ran.status.code()
    };
    assert_eq!(exit(), Some(3), "the partner has another variable");
    let edit = |file: &str, from: &str, to: &str| {
        let path = folder.join("parcels").join(file);
        let text = std::fs::read_to_string(&path).expect("a text");
        let is_of_variable = |line: &&str| *line == "vars:" || line.starts_with("  agent: ");
        let lines: Vec<&str> = text.lines().filter(|line| !is_of_variable(line)).collect();
        std::fs::write(&path, lines.join("\n").replace(from, to)).expect("a text");
    };
    edit("catalog/partners/resend.yaml", "{{ vars.agent }}", "parcels/1.0");
    edit("integrations.yaml", "agent: parcels/1.0, ", "");
    assert_eq!(exit(), Some(0), "the same is in force");
}

/// Step 3: a mistake, and what the command says of it.
#[test]
fn the_tutorial_quotes_what_a_mistake_is_answered_with() {
    let text = document("PARTNERS.md");
    let (own, _) = text.split_once("\n## 7.").expect("the last step");
    let folder = scratch("parcels-mistaken");
    write_files(own, "parcels", &folder);
    let (_, step) = text.split_once("\n## 3. ").expect("the step");
    let mistake = step.split('`').find(|code| code.starts_with("headers: {")).expect("the mistake");
    let flow = folder.join("parcels/flows/order-shipped.yaml");
    let good = std::fs::read_to_string(&flow).expect("the flow");
    std::fs::write(&flow, good.replace("path: /emails\n", &format!("path: /emails\n      {mistake}\n")))
        .expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ledgerline"));
    let output = command.current_dir(&folder).args(["flows", "check", "parcels"]).output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let quoted = blocks(step).into_iter().map(|(_, code)| code).next().expect("what it says");
    assert!(told.contains(quoted.trim()), "the page quotes something else than this:\n{told}");
    std::fs::write(&flow, good).expect("a file");
    assert!(ledgerline(&folder, "flows check parcels").contains("no problems in 1 flow, 3 files"));
}

#[test]
fn the_first_tutorial_quotes_the_plan_of_its_files() {
    let text = document("FLOWS.md");
    let folder = scratch("shop");
    write_files(&text, "shop", &folder);
    let plan = ledgerline(&folder, "flows plan shop/samples/paid.json --in shop");
    assert!(text.contains(&plan), "the page quotes another plan than this:\n{plan}");
    assert!(ledgerline(&folder, "flows check shop").contains("no problems in 1 flow, 3 files"));
    let told = ledgerline(&folder, "flows test shop");
    assert!(told.contains("1 scenario, and all hold"), "{told}");
}
