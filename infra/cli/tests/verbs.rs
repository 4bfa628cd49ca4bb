//! The command as people and scripts use it: its words, its JSON and its exit codes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn good() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken/_good")
}

fn ledgerline(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ledgerline"));
    command.current_dir(root()).args(arguments).output().expect("it runs")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it ended by itself")
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn answer(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", words(output)))
}

/// A folder of its own for a test.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(folder.join("flows")).expect("a folder");
    folder
}

/// The good flows in a repository, at its first commit.
fn repository(name: &str) -> PathBuf {
    let folder = scratch(name);
    for file in ["sources.yaml", "integrations.yaml", "flows/leads.yaml"] {
        std::fs::copy(good().join(file), folder.join(file)).expect("a copy");
    }
    git(&folder, &["init", "-q"]);
    commit(&folder);
    folder
}

/// Commits the flows as they are now.
fn commit(folder: &Path) {
    git(folder, &["add", "-A"]);
    let who = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"];
    git(folder, &[&who[..], &["commit", "-qm", "flows"]].concat());
}

fn git(folder: &Path, arguments: &[&str]) {
    let status = Command::new("git").current_dir(folder).args(arguments).status().expect("git runs");
    assert!(status.success(), "git {arguments:?}");
}

fn edit(path: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(path).expect("a text");
    assert!(text.contains(from), "{from}");
    std::fs::write(path, text.replace(from, to)).expect("it is written");
}

fn diff(folder: &Path) -> Output {
    ledgerline(&["flows", "diff", "HEAD", &folder.to_string_lossy()])
}

#[test]
fn a_check_says_by_its_exit_code_what_it_found() {
    assert_eq!(code(&ledgerline(&["flows", "check"])), 0, "the shipped flows are good");
    assert_eq!(code(&ledgerline(&["flows", "check", "infra"])), 2, "there are no flows");
    assert_eq!(code(&ledgerline(&["flows", "chekc"])), 2);

    let folder = repository("check");
    edit(&folder.join("flows/leads.yaml"), "max_attempts: 3", "max_attempts: 0");
    edit(&folder.join("sources.yaml"), "scheme: standard-webhooks", "scheme: github\n  tolerance: 5m");
    let found = ledgerline(&["flows", "check", "--json", &folder.to_string_lossy()]);
    assert_eq!(code(&found), 1);
    let problems = answer(&found)["problems"].as_array().cloned().expect("a list");
    let places: Vec<Value> = problems.iter().map(|p| json!([p["file"], p["line"], p["column"]])).collect();
    assert_eq!(places, [json!(["sources.yaml", 3, 14]), json!(["flows/leads.yaml", 48, 17])], "all at once");
}

/// No invocation of the processor could wait for such a call.
#[test]
fn a_check_declines_a_time_out_with_the_number_that_it_must_fit() {
    let folder = repository("timeout/flows");
    let template = folder.join("../template.yaml");
    std::fs::remove_file(&template).ok();
    let check = |more: &[&str]| ledgerline(&[&["flows", "check", &*folder.to_string_lossy()], more].concat());
    edit(
        &folder.join("integrations.yaml"),
        "api.crm.example.com/v2\n  auth: bearer\n  timeout: 3s",
        "api.crm.example.com/v2\n  auth: bearer\n  timeout: 10m",
    );
    let found = check(&[]);
    let told = "the timeout of `crm` is 600 s, and must be at most 29 s: the processor has 30 s for a batch";
    assert!(code(&found) == 1 && words(&found).contains(told), "{}", words(&found));
    assert!(words(&found).contains("integrations.yaml:4"), "{}", words(&found));

    std::fs::write(&template, "Parameters:\n  ProcessorTimeout:\n    Default: 60\n").expect("a template");
    assert!(words(&check(&[])).contains("must be at most 59 s"), "the template beside it counts");
    assert_eq!(code(&check(&["--processor-timeout", "601s"])), 0);
    assert_eq!(code(&check(&["--processor-timeout", "600s"])), 1);
}

/// What an answer means decides whether an effect happens twice: so a check prints the table in force.
#[test]
fn a_check_prints_what_answers_mean() {
    let default = "done 200..299; retry 429; failed 400, 404..405, 410, 413, 415, 422; credentials rejected 401, 403; \
                   in doubt all others";
    let folder = repository("answers");
    let path = folder.to_string_lossy().into_owned();
    let checked = words(&ledgerline(&["flows", "check", &path]));
    assert!(checked.ends_with(&format!("\nanswers to all calls\n  {default}\n")), "{checked}");
    let as_json = || answer(&ledgerline(&["flows", "check", "--json", &path]));
    assert_eq!(as_json(), json!({"problems": [], "warnings": [], "answers": [], "default_answers": default}));

    let table = "  answers:\n    - {status: 200..299, when: body.ok == true, means: done}\n    \
                 - {status: [503, 520..522], means: retry}\n    - {status: 409, means: failed}\n";
    edit(&folder.join("integrations.yaml"), "chat:\n", &format!("chat:\n{table}"));
    edit(
        &folder.join("flows/leads.yaml"),
        "    needs: [crm]\n",
        "    needs: [crm]\n    answers: [{status: 520, means: in_doubt}]\n",
    );
    let rows = [
        "done where 200..299 and body.ok == true",
        "retry 429, 503, 521..522; failed 400, 404..405, 409..410, 413, 415, 422; credentials rejected 401, 403; \
         in doubt all others",
    ];
    let checked = words(&ledgerline(&["flows", "check", &path]));
    let told =
        format!("\nanswers to leads/notify\n  {}\n  {}\n\nanswers to all other calls\n  {default}\n", rows[0], rows[1]);
    assert!(checked.ends_with(&told), "{checked}");
    let table = json!({"flow": "leads", "effect": "notify", "answers": rows});
    assert_eq!(as_json(), json!({"problems": [], "warnings": [], "answers": [table], "default_answers": default}));
}

#[test]
fn a_source_that_anybody_could_pass_for_is_for_local_development() {
    let folder = repository("unsigned");
    edit(&folder.join("sources.yaml"), "standard-webhooks", "none");
    let folder = folder.to_string_lossy();
    assert_eq!(code(&ledgerline(&["flows", "check", &folder])), 1);
    assert_eq!(code(&ledgerline(&["flows", "check", "--allow-unsigned", &folder])), 0);
}

#[test]
fn a_diff_tells_what_changed_and_takes_no_layout_for_a_change() {
    let folder = repository("diff");
    assert!(words(&diff(&folder)).contains("Nothing changed"));

    let flow = folder.join("flows/leads.yaml");
    edit(&flow, "# A lead", "# Another comment. A lead");
    edit(&flow, "on: {source: web-forms, type: lead.created}", "on:\n  source: web-forms\n  type: lead.made");
    edit(&flow, "ttl: 24h", "ttl: 48h");
    edit(&flow, "    needs: [crm]\n", "");
    let changed = diff(&folder);
    let told = words(&changed);
    assert_eq!(code(&changed), 0, "{told}");
    for line in [
        "on.type changed from `lead.created` to `lead.made`",
        "ttl changed from `24h` to `48h`",
        "effects.notify.needs was removed",
    ] {
        assert!(told.contains(line), "{line} in {told}");
    }
    assert!(!told.contains("on.source"), "{told}");
}

/// The last effect of the good flow.
const NOTIFY: &str = r#"  - id: notify
    integration: chat
    needs: [crm]
    request:
      method: POST
      path: /messages
      body: {text: "New lead {{ effects.crm.crm_id }}"}
"#;

#[test]
fn a_diff_warns_when_an_effect_could_happen_again_or_be_forgotten() {
    for (name, from, to) in [
        ("version", "key:\n  version: 1", "key:\n  version: 2"),
        ("fields", "    - id\n", "    - at\n"),
        ("normalisers", "[trim, lower]", "[lower]"),
        ("bucket", "  fields:", "  bucket: {field: at, every: 5m}\n  fields:"),
        ("window", "  fields:", "  window: {field: at, within: 5m}\n  fields:"),
        ("name", "name: leads", "name: prospects"),
        ("ttl", "ttl: 24h", "ttl: 12h"),
        ("effect renamed", "  - id: notify\n", "  - id: announce\n"),
        ("effect gone", NOTIFY, ""),
        ("effect new", NOTIFY, &format!("{NOTIFY}{}", NOTIFY.replace("notify", "announce"))),
        ("guarantee", "guarantee: native", "guarantee: none"),
        ("method", "method: PUT", "method: POST"),
        ("path", "path: /leads/", "path: /people/"),
        ("body", "        company: ", "        firm: "),
        ("order", "order_by: data.email", "order_by: id"),
    ] {
        let folder = repository(&format!("risk-{}", name.replace(' ', "-")));
        edit(&folder.join("flows/leads.yaml"), from, to);
        let told = diff(&folder);
        assert_eq!(code(&told), 3, "{name}: {}", words(&told));
        assert!(words(&told).contains("risk: "), "{name}");
    }
    let folder = repository("risk-window");
    edit(&folder.join("integrations.yaml"), "timeout: ", "key_window: 1h\n  timeout: ");
    assert_eq!(code(&diff(&folder)), 3, "the default was a day");
    let folder = repository("risk-safe-mode");
    let safe = |path: &str| {
        format!("safe_mode:\n  requests:\n    crm: {{method: PUT, path: '/safe/{path}', body: {{a: 1}}}}\neffects:\n")
    };
    edit(&folder.join("flows/leads.yaml"), "effects:\n", &safe("one"));
    commit(&folder);
    edit(&folder.join("flows/leads.yaml"), "/safe/one", "/safe/two");
    let told = diff(&folder);
    assert_eq!(code(&told), 3, "what was tried in safe mode stays in it: {}", words(&told));
    let folder = repository("risk-answers");
    edit(&folder.join("integrations.yaml"), "timeout: ", "answers: [{status: 503, means: retry}]\n  timeout: ");
    let told = diff(&folder);
    assert_eq!(code(&told), 3, "what was in doubt is repeated: {}", words(&told));
    let folder = repository("renamed");
    edit(&folder.join("flows/leads.yaml"), "  - id: notify\n", "  - id: announce\n    was: [notify]\n");
    let told = diff(&folder);
    assert_eq!(code(&told), 0, "{}", words(&told));
    assert!(words(&told).contains("effects.announce is the effect `notify` under another name"), "{}", words(&told));
    let folder = repository("risk-file");
    std::fs::rename(folder.join("flows/leads.yaml"), folder.join("flows/prospects.yaml")).expect("a new name");
    assert_eq!(code(&diff(&folder)), 3);
}

#[test]
fn a_diff_compares_what_is_used_of_the_catalogue() {
    let folder = repository("diff-catalogue");
    let catalogue = folder.join("catalog/partners");
    std::fs::create_dir_all(&catalogue).expect("a folder");
    let shipped = root().join("infra/flows/catalog/partners");
    for name in ["slack", "stripe"] {
        std::fs::copy(shipped.join(format!("{name}.yaml")), catalogue.join(format!("{name}.yaml"))).expect("a copy");
    }
    let integrations = std::fs::read_to_string(folder.join("integrations.yaml")).expect("a text");
    std::fs::write(folder.join("integrations.yaml"), format!("{integrations}team: {{uses: slack}}\n")).expect("a file");
    commit(&folder);
    let told = words(&diff(&folder));
    assert!(told.contains("Nothing changed"), "{told}");

    std::fs::remove_file(catalogue.join("stripe.yaml")).expect("it is removed");
    assert!(words(&diff(&folder)).contains("Nothing changed"), "no integration uses it");
    std::fs::write(folder.join("integrations.yaml"), integrations).expect("a file");
    let told = words(&diff(&folder));
    assert!(told.contains("catalog/partners/slack.yaml\n  is no longer there, or no longer used"), "{told}");
    assert!(!told.contains("recognised") && !told.contains("stripe"), "{told}");
}

/// What a partner or the ledger was told before: each is in the committed flows, and changed after.
#[test]
fn a_diff_warns_when_a_name_an_address_or_a_way_to_ask_is_lost() {
    const FLOW: &str = "flows/leads.yaml";
    let named = (FLOW, "  - id: notify\n", "  - id: notify\n    was: [tell, announce]\n");
    let asked = "    guarantee: lookup\n    lookup: {after: 5s, request: {path: /leads/1}, found: /id}\n";
    let asks = (FLOW, "    guarantee: native\n", asked);
    let same = ("integrations.yaml", "  timeout: ", "  # A comment.\n  timeout: ");
    for (name, (file, from, to), changed, before, after) in [
        ("name-lost", named, FLOW, "[tell, announce]", "[tell]"),
        ("oldest-lost", named, FLOW, "[tell, announce]", "[announce]"),
        ("was-lost", named, FLOW, "    was: [tell, announce]\n", ""),
        ("asked-elsewhere", asks, FLOW, "/leads/1", "/leads/2"),
        ("asked-later", asks, FLOW, "after: 5s", "after: 50s"),
        ("not-asked", asks, FLOW, asked, "    guarantee: none\n"),
        ("moved", same, "integrations.yaml", "base_url: https://", "base_url: https://new."),
    ] {
        let folder = repository(name);
        edit(&folder.join(file), from, to);
        commit(&folder);
        edit(&folder.join(changed), before, after);
        let told = diff(&folder);
        assert_eq!(code(&told), 3, "{name}: {}", words(&told));
        assert!(words(&told).contains("risk: "), "{name}: {}", words(&told));
    }
}

#[test]
fn a_plan_shows_every_effect_and_no_value_where_it_is_masked() {
    let open = words(&ledgerline(&["flows", "plan", "events/lead-created.json"]));
    assert!(open.contains("PUT https://api.crm.example.com/v2/leads/evt_1001") && open.contains("Lovelace"), "{open}");
    let planned = ledgerline(&["flows", "plan", "events/lead-created.json", "--masked"]);
    let told = words(&planned);
    assert_eq!(code(&planned), 0, "{told}");
    assert!(told.contains("PUT https://api.crm.example.com/v2/leads/‹text"), "{told}");
    assert!(told.contains("Idempotency-Key: ") && told.contains("/crm"), "{told}");
    assert!(told.contains("dropped data.browser"), "{told}");

    let event = std::fs::read_to_string(root().join("events/lead-created.json")).expect("the event");
    let event: Value = serde_json::from_str(&event).expect("JSON");
    for value in event["data"].as_object().expect("fields").values().filter_map(Value::as_str) {
        assert!(!told.contains(value), "{value} in {told}");
    }
}

#[test]
fn a_plan_of_what_would_be_refused_says_why() {
    let file = scratch("plan").join("event.json");
    std::fs::write(&file, r#"{"type": "lead.created", "data": {"event_id": "e", "tenant": "t", "email": "hunter2"}}"#)
        .expect("it is written");
    let refused = ledgerline(&["flows", "plan", &file.to_string_lossy()]);
    assert_eq!(code(&refused), 1);
    assert!(words(&refused).contains("/data/email breaks `pattern`"), "{}", words(&refused));
    assert!(!words(&refused).contains("hunter2"));
}

#[test]
fn keys_tell_collisions_from_repeats_and_near_misses() {
    let event = |id: &str, company: &str, at: &str| {
        json!({"type": "lead.created", "timestamp": at,
               "data": {"event_id": id, "tenant": "t", "email": "a@example.com", "company": company}})
        .to_string()
    };
    let lines = [
        event("e1", "Acme", "2026-11-16T09:00:01Z"),
        event("e1", "Acme", "2026-11-16T09:00:01Z"),
        event("e1", "Umbrella", "2026-11-16T09:00:01Z"),
        event("e2", "Acme", "2026-11-16T09:00:40Z"),
        event("e3", "Acme", "2026-11-16T10:00:00Z"),
        "{}".into(),
    ];
    let file = scratch("keys").join("export.jsonl");
    std::fs::write(&file, lines.join("\n")).expect("it is written");
    let found = ledgerline(&["flows", "keys", "--json", &file.to_string_lossy()]);
    let report = answer(&found);
    assert_eq!(code(&found), 1);
    assert_eq!((&report["events"], &report["distinct"], &report["repeats"]), (&json!(5), &json!(3), &json!(1)));
    assert_eq!(report["collisions"][0]["lines"], json!([1, 2, 3]));
    assert_eq!(report["collisions"][0]["differ_in"], json!(["data.company"]));
    assert_eq!(report["near_misses"][0]["lines"], json!([1, 2, 3, 4]));
    assert_eq!(report["refused"][0][0], 6);
    assert!(!words(&found).contains("Umbrella"), "no value is printed");
}

/// The export of a folder with this in its key, and what the command says of it.
fn keys_of(name: &str, key: &str, moments: &[&str]) -> Value {
    let folder = repository(name);
    edit(&folder.join("flows/leads.yaml"), "  fields:", &format!("  {key}\n  fields:"));
    let event = |at: &&str| json!({"type": "lead.created", "id": "e1", "at": at, "data": {"email": "a@example.com"}});
    let lines: Vec<String> = moments.iter().map(|at| event(at).to_string()).collect();
    let file = folder.join("export.jsonl");
    std::fs::write(&file, lines.join("\n")).expect("it is written");
    let (file, folder) = (file.to_string_lossy(), folder.to_string_lossy());
    answer(&ledgerline(&["flows", "keys", "--json", "--flow", "leads", "--at", "at", &file, "--in", &folder]))
}

#[test]
fn keys_know_windows_and_the_edges_of_buckets() {
    let moments = ["2026-11-16T09:05:01Z", "2026-11-16T09:04:59Z", "2026-11-16T09:12:00Z"];
    let report = keys_of("keys-bucket", "bucket: {field: at, every: 5m}", &moments);
    assert_eq!(report["distinct"], 3);
    assert_eq!(report["near_edges"], json!([{"line": 2, "field": "at", "edge_in_ms": 1000}]));
    for window in ["window: {field: at, within: 5m}", "window: 5m"] {
        let report = keys_of("keys-window", window, &moments);
        assert_eq!((&report["distinct"], &report["near_edges"]), (&json!(2), &json!([])), "{window}");
    }
    let report = keys_of("keys-window", "window: {field: at, within: 5m}", &moments);
    assert_eq!((&report["repeats"], &report["collisions"]), (&json!(1), &json!([])), "only the moment differs");
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(words(&ledgerline(&["completions", shell])).contains("ledgerline"), "{shell}");
    }
}

/// As `ledgerline completions bash | head -1` closes it. The exit code stays that of the verb.
#[test]
fn a_closed_pipe_ends_every_verb_quietly() {
    let folder = repository("closed-pipe");
    edit(&folder.join("flows/leads.yaml"), "key:\n  version: 1", "key:\n  version: 2");
    let folder = folder.to_string_lossy();
    let export = scratch("closed-pipe-keys").join("export.jsonl");
    std::fs::write(&export, "{}").expect("it is written");
    for (arguments, expected) in [
        (&["completions", "bash"][..], 0),
        (&["--help"], 0),
        (&["flows", "check"], 0),
        (&["flows", "check", "--json"], 0),
        (&["flows", "diff", "HEAD", &folder], 3),
        (&["flows", "keys", &export.to_string_lossy()], 0),
        (&["flows", "plan", "events/lead-created.json"], 0),
        (&["flows", "plan", "events/lead-created.json", "--json"], 0),
        // These write to standard error, which is closed, too.
        (&["flows", "check", "infra"], 2),
        (&["replay", "--reason", "it is back"], 2),
    ] {
        let (_, closed) = std::io::pipe().expect("a pipe");
        let (_, closed_too) = std::io::pipe().expect("a pipe");
        let mut command = Command::new(env!("CARGO_BIN_EXE_ledgerline"));
        let command = command.current_dir(root()).args(arguments);
        let status = command.stdout(closed).stderr(closed_too).status().expect("it runs");
        assert_eq!(status.code(), Some(expected), "{arguments:?}");
        let (_, closed) = std::io::pipe().expect("a pipe");
        let output = command.stdout(closed).stderr(std::process::Stdio::piped()).output().expect("it runs");
        assert_eq!(output.stderr.is_empty(), expected != 2, "{arguments:?}: {}", words(&output));
    }
}

#[test]
fn colours_are_for_terminals() {
    assert!(!words(&ledgerline(&["flows", "check"])).contains('\u{1b}'));
}

#[test]
fn the_version_says_what_it_was_built_from_and_which_formats_it_knows() {
    let told = answer(&ledgerline(&["version", "--json"]));
    assert_eq!(told["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(told["commit"], option_env!("LEDGERLINE_COMMIT").map_or(Value::Null, |commit| json!(commit)));
    assert_eq!(told["format"], json!(shared::base::format::FORMAT));
    assert!(words(&ledgerline(&["version"])).contains("are read"));
}

/// As `make deploy` compares the flows that run with those of the checkout.
#[test]
fn flows_are_compared_with_another_folder_as_with_a_revision() {
    let (old, new) = (repository("diff-old"), repository("diff-new"));
    edit(&new.join("flows/leads.yaml"), "key:\n  version: 1", "key:\n  version: 2");
    let at_revision = ledgerline(&["flows", "diff", "HEAD", &new.to_string_lossy(), "--json"]);
    let of_folder = ledgerline(&["flows", "diff", &format!("{}/", old.display()), &new.to_string_lossy(), "--json"]);
    assert_eq!((code(&at_revision), code(&of_folder)), (3, 3), "{}", words(&of_folder));
    assert_eq!(answer(&at_revision), answer(&of_folder));
    let same = ledgerline(&["flows", "diff", &format!("{}/", new.display()), &new.to_string_lossy()]);
    assert_eq!(code(&same), 0, "{}", words(&same));
}
