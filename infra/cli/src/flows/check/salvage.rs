//! What can still be checked of files with mistakes.
//!
//! The parser stops at the first mistake in the form of a file, and what only a look at whole flows shows needs flows
//! without any. So each place with a mistake is told, and then holds something harmless or nothing, until the rest can be
//! read. What is found at such a place afterwards is no mistake of the author's, and is not told.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use shared::base::wrong::step;
use shared::flows::catalog::Shelf;
use shared::flows::{File, Flows, Problem, Problems, unreadable};

use super::mended::MendedFile;

/// How often a folder is read at most. A file that is beyond repair must not take for ever.
const MOST_READS: usize = 600;

/// Files under repair, and the mistakes in them.
pub(super) struct Salvage<'s> {
    files: &'s [File],
    /// The files that were changed, by their paths. Nothing stands for one that is beyond repair.
    mended: BTreeMap<String, Option<MendedFile>>,
    pub(super) problems: Vec<Problem>,
    reads: usize,
}

impl<'s> Salvage<'s> {
    /// Takes the mistakes out of these files.
    pub(super) fn of(files: &'s [File]) -> Self {
        let mut salvage = Salvage { files, mended: BTreeMap::new(), problems: Vec::new(), reads: 0 };
        for file in files {
            salvage.mend_form(file);
        }
        salvage
    }

    /// The flows of what is left, with the mistakes in their meaning told and taken out, too. Nothing, if that cannot be.
    pub(super) fn flows(&mut self) -> Option<Flows> {
        let mut problems = match self.parsed() {
            Ok(flows) => return Some(flows),
            Err(problems) => problems,
        };
        self.tell(&problems);
        loop {
            let number = problems.len();
            let mended = problems.iter().find_map(|problem| self.mend_meaning(problem, number));
            problems = match mended {
                Some(Ok(flows)) => return Some(flows),
                Some(Err(fewer)) => fewer,
                None => return self.without(&problems),
            };
        }
    }

    /// Tells findings in what is left, in the words and at the places of the files as they were written.
    pub(super) fn tell(&mut self, found: &[Problem]) {
        for problem in found {
            let Some(problem) = self.as_written(problem) else { continue };
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
    }

    /// Takes out the place of a finding that hides others.
    pub(super) fn mend(&mut self, found: &Problem) -> Option<Flows> {
        self.mend_meaning(found, 1)?.ok()
    }

    /// The files as they are left. A flow that is beyond repair is left out. Another file stays as it was: the parser knows
    /// then that it could not be read, and misses no name of it.
    pub(super) fn left(&self) -> Vec<File> {
        let left = |file: &File| match self.mended.get(&file.path) {
            Some(Some(mended)) => Some(mended.file()),
            Some(None) if file.path.starts_with("flows/") => None,
            Some(None) | None => Some(file.clone()),
        };
        self.files.iter().filter_map(left).collect()
    }

    fn parsed(&mut self) -> Result<Flows, Vec<Problem>> {
        self.reads += 1;
        Flows::parse(&self.left()).map_err(|Problems(problems)| problems)
    }

    /// Takes the mistakes out of a file that stop its parser.
    fn mend_form(&mut self, file: &File) {
        let Some(first) = unreadable(file) else { return };
        self.problems.push(first.clone());
        let Some(mut mended) = MendedFile::of(file) else {
            self.mended.insert(file.path.clone(), None);
            return;
        };
        while let Some(problem) = unreadable(&mended.file()) {
            self.reads += 1;
            let at = mended.pointer_at(problem.place);
            if !mended.is_gone(&at) {
                self.tell_once(problem_at(file, &at, &problem));
            }
            let Some(next) = self.without_form_mistake(&mended, &at, &problem) else {
                self.mended.insert(file.path.clone(), None);
                return;
            };
            mended = next;
        }
        self.mended.insert(file.path.clone(), Some(mended));
    }

    /// Tells a mistake in the form of a file. The first one was told as the parser finds it.
    fn tell_once(&mut self, problem: Problem) {
        let line = |problem: &Problem| (problem.file.clone(), problem.place.line, problem.what.clone());
        if !self.problems.iter().any(|told| line(told) == line(&problem)) {
            self.problems.push(problem);
        }
    }

    /// The file with something else in the place of its first mistake, so that the parser gets beyond it.
    fn without_form_mistake(&mut self, mended: &MendedFile, at: &str, problem: &Problem) -> Option<MendedFile> {
        for change in changes(mended, at, problem, &self.names()) {
            if self.reads > MOST_READS {
                return None;
            }
            let Some(tried) = mended.with(&change) else { continue };
            self.reads += 1;
            let next = unreadable(&tried.file());
            let is_here = |next: &Problem| {
                let there = tried.pointer_at(next.place);
                there == change.0 || there == at && next.what == problem.what
            };
            if !next.as_ref().is_some_and(is_here) {
                return Some(tried);
            }
        }
        None
    }

    /// The names that flows may say: of integrations and of sources.
    fn names(&self) -> KnownNames {
        let of = |path: &str| {
            let file = self.files.iter().find(|file| file.path == path);
            let read: Option<Value> = file.and_then(|file| serde_saphyr::from_str(&file.text).ok());
            read.iter().filter_map(Value::as_object).flat_map(|names| names.keys().cloned()).collect()
        };
        KnownNames { integrations: of(Shelf::Partners.user()), sources: of(Shelf::Sources.user()) }
    }

    /// Takes one of so many mistakes out of the flows: what is left must have fewer.
    fn mend_meaning(&mut self, problem: &Problem, number: usize) -> Option<Result<Flows, Vec<Problem>>> {
        let file = self.files.iter().find(|file| file.path == problem.file)?;
        let before = self.mended.get(&file.path).cloned();
        let mended = match &before {
            Some(mended) => mended.clone()?,
            None => MendedFile::of(file)?,
        };
        let at = match &before {
            Some(_) => mended.pointer_at(problem.place),
            // What is missing from the whole has the place of the whole.
            None => mended.pointer_as_written(problem.place).unwrap_or_default(),
        };
        for change in changes(&mended, &at, problem, &self.names()) {
            if self.reads > MOST_READS {
                break;
            }
            let Some(tried) = mended.with(&change) else { continue };
            // A file that cannot be read has one mistake, whatever else is wrong with it.
            if unreadable(&tried.file()).is_some() {
                continue;
            }
            self.mended.insert(file.path.clone(), Some(tried));
            match self.parsed() {
                Err(left) if left.len() >= number => (),
                fewer => return Some(fewer),
            }
        }
        match before {
            Some(before) => drop(self.mended.insert(file.path.clone(), before)),
            None => drop(self.mended.remove(&file.path)),
        }
        None
    }

    /// The flows without the files that these mistakes are in.
    fn without(&mut self, problems: &[Problem]) -> Option<Flows> {
        for path in problems.iter().map(|problem| &problem.file).collect::<BTreeSet<_>>() {
            if path.starts_with("flows/") {
                self.mended.insert(path.clone(), None);
            }
        }
        self.parsed().ok()
    }

    /// A problem in what is left as one in the file as it was written. Nothing, where the place is none of the author's.
    fn as_written(&self, problem: &Problem) -> Option<Problem> {
        let file = self.files.iter().find(|file| file.path == problem.file);
        let (Some(file), Some(Some(mended))) = (file, self.mended.get(&problem.file)) else {
            return Some(problem.clone());
        };
        let at = mended.pointer_at(problem.place);
        (!mended.is_gone(&at)).then(|| problem_at(file, &at, problem))
    }
}

fn problem_at(file: &File, at: &str, problem: &Problem) -> Problem {
    Problem { hint: problem.hint.clone(), ..Problem::at(file, at, &problem.what) }
}

/// The names that flows may say.
struct KnownNames {
    integrations: Vec<String>,
    sources: Vec<String>,
}

/// A place, and what is put there: nothing stands for its removal.
type Change = (String, Option<Value>);

/// What could stand in a place instead of a mistake, the nearest first.
fn changes(mended: &MendedFile, at: &str, problem: &Problem, names: &KnownNames) -> Vec<Change> {
    let root = mended.root();
    let missing = problem.what.strip_prefix("the field `").and_then(|rest| rest.strip_suffix("` is missing here"));
    if let Some(name) = missing {
        let place = format!("{at}{}", step(name));
        let values = usual(name, root).into_iter().chain(plain_values());
        return values.map(|value| (place.clone(), Some(value))).collect();
    }
    if let Some(entry) = plain_entry(mended.path(), at) {
        return vec![entry];
    }
    if at.is_empty() {
        return usual("order_by", root).into_iter().map(|value| ("/order_by".to_owned(), Some(value))).collect();
    }
    let name = at.rsplit('/').find(|step| step.parse::<usize>().is_err()).unwrap_or_default();
    let is_text = root.pointer(at).is_some_and(Value::is_string);
    let fitting = fields_of(name, root).into_iter().chain(named(name, names)).chain(usual(name, root));
    let values = fitting.chain(texts().into_iter().filter(|_| is_text)).map(Some);
    let values = values.chain([None]).chain(plain_values().map(Some)).map(|value| (at.to_owned(), value));
    values.chain(plain_effect(at, root, names)).collect()
}

fn named(name: &str, names: &KnownNames) -> Vec<Value> {
    let known = match name {
        "integration" => &names.integrations,
        "source" => &names.sources,
        _ => return Vec::new(),
    };
    known.iter().map(|name| json!(name)).collect()
}

/// Instead of a source or an integration that is none, a plain one under the same name: flows name it.
fn plain_entry(path: &str, at: &str) -> Option<Change> {
    let entry = match path {
        "sources.yaml" => json!({"scheme": "github", "max_body": "64KiB", "rate": "9/s", "type_at": "type"}),
        "integrations.yaml" => json!({"base_url": "https://x.example.com", "timeout": "2s"}),
        _ => return None,
    };
    (at.matches('/').count() == 1).then(|| (at.to_owned(), Some(entry)))
}

/// Instead of an effect that cannot be mended, one that does nothing wrong under the same name: others may need it.
fn plain_effect(at: &str, root: &Value, names: &KnownNames) -> Vec<Change> {
    let Some(index) = at.strip_prefix("/effects/").and_then(|rest| rest.split('/').next()) else { return Vec::new() };
    let place = format!("/effects/{index}");
    let Some(id) = root.pointer(&format!("{place}/id")) else { return Vec::new() };
    let request = json!({"method": "POST", "path": "/x"});
    let effect = |name: &String| json!({"id": id, "integration": name, "request": request});
    names.integrations.iter().map(|name| (place.clone(), Some(effect(name)))).collect()
}

fn texts() -> [Value; 4] {
    [json!("x"), json!("/x"), json!("true"), json!("1h")]
}

fn plain_values() -> impl Iterator<Item = Value> {
    texts().into_iter().chain([json!(1), json!(true), json!([]), json!({})])
}

/// Values that can stand under such a name in a flow.
fn usual(name: &str, flow: &Value) -> Vec<Value> {
    let field = plain_field(flow).unwrap_or_else(|| "id".to_owned());
    match name {
        "version" => vec![json!(1)],
        "on" => vec![json!({"source": "x", "type": "x"})],
        "schema" => vec![json!({"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}})],
        "key" => vec![json!({"version": 1, "fields": [field]})],
        "order_by" => vec![json!(field)],
        "effects" => vec![json!([])],
        "request" => vec![json!({"method": "POST", "path": "/x"})],
        "retry" => vec![json!({"strategy": "fixed", "base": "2s", "max_delay": "2s", "max_attempts": 3})],
        "ttl" => vec![json!("72h")],
        "keep" => vec![json!("720h")],
        "max_age" => vec![json!("24h")],
        "base" | "max_delay" | "timeout" | "after" => vec![json!("2s")],
        _ => Vec::new(),
    }
}

/// A field that can name an event or an entity, where such a field stands.
fn fields_of(name: &str, flow: &Value) -> Vec<Value> {
    let named = ["fields", "order_by", "field"].contains(&name);
    named.then(|| plain_field(flow)).flatten().map(Value::from).into_iter().collect()
}

/// A field that every event of a flow has, and that is a text or a number.
fn plain_field(flow: &Value) -> Option<String> {
    let (required, properties) = (flow["schema"]["required"].as_array()?, flow["schema"]["properties"].as_object()?);
    let is_plain = |kind: &Value| kind == "string" || kind == "integer";
    let plain = |name: &&str| properties.get(*name).is_some_and(|schema: &Value| is_plain(&schema["type"]));
    required.iter().filter_map(Value::as_str).find(plain).map(str::to_owned)
}
