//! Sources: who may send events, and how a sender proves itself.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::catalog::Shelf;
#[cfg(feature = "schema")]
use super::schema;
use super::text_or_map::text_or_map;
use super::{About, Field, File, Flows, Handshake, Piece, Problem, Problems, Scheme, Split, parse::Size};
use crate::base::suggest::suggest;
use crate::base::time::{DurationText, duration};
use crate::base::wrong::{Wrong, step};
use crate::limits::rates::Rate;

/// The largest difference between a sender's clock and ours, unless its source names another.
const TOLERANCE: Duration = Duration::from_secs(300);

/// A source: how a sender proves itself, and what it may send.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "WrittenSource")]
pub struct Source {
    /// The sender of the catalogue that it uses, if it uses one.
    pub uses: Option<String>,
    /// Where the facts about the sender come from.
    pub about: Option<About>,
    /// The scheme by which the source proves its deliveries.
    pub scheme: Scheme,
    /// The largest difference between the sender's clock and ours, where the scheme signs the time; 5m without it.
    /// [`Source::tolerance`] has the value that is in force.
    pub tolerance: Option<Duration>,
    /// The largest body that the source may send, in bytes.
    pub max_body: usize,
    /// The highest rate of the source's events.
    pub rate: Rate,
    /// The field of the body that names the event's type. Without it, only the path does.
    pub type_at: Option<Field>,
    /// The place of the provider's own id of an event. A key reads it as `$id`.
    pub id_at: Option<IdAt>,
    /// The standard in which the source wraps its events.
    pub envelope: Envelope,
    /// The form in which the source writes its bodies.
    pub format: BodyFormat,
    /// The field of a form that holds the event as JSON, for a sender that posts forms.
    pub form: Option<String>,
    /// The lists that hold the events of a delivery, where it may hold several.
    pub split: Option<Split>,
    /// What becomes of events of a type that no flow takes.
    pub other_types: OtherTypes,
    /// The sender's handshake.
    pub handshake: Option<Handshake>,
    /// The status that the sender takes for success.
    pub success: u16,
    /// How the sender repeats a delivery that was not answered with success.
    pub retries: Option<SenderRetries>,
}

/// A source as it is written, here or in the catalogue.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenSource {
    /// The sender of the catalogue that it uses: `catalog/sources/<name>.yaml`. What stands here goes before it, field by field.
    #[serde(default)]
    uses: Option<String>,
    /// Where the facts of a catalogue file come from.
    #[serde(default)]
    about: Option<About>,
    /// The scheme by which the source proves its deliveries.
    #[serde(default)]
    scheme: Option<Scheme>,
    /// The largest difference between the sender's clock and ours, where the scheme signs the time; 5m without it.
    #[serde(default, deserialize_with = "some_duration")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DurationText>"), serde(serialize_with = "schema::some"))]
    tolerance: Option<Duration>,
    /// The largest body that the source may send.
    #[serde(default, deserialize_with = "some_size")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Size>"))]
    max_body: Option<usize>,
    /// The highest rate of the source's events.
    #[serde(default)]
    rate: Option<Rate>,
    /// The field of the body that names the event's type. Without it, only the path does.
    #[serde(default)]
    type_at: Option<Field>,
    /// The place of the provider's own id of an event. A key reads it as `$id`.
    #[serde(default)]
    id_at: Option<IdAt>,
    /// The standard in which the source wraps its events.
    #[serde(default)]
    envelope: Option<Envelope>,
    /// The form in which the source writes its bodies: `json`, or `form`, whose fields are the event's.
    #[serde(default)]
    format: Option<BodyFormat>,
    /// The field of a form that holds the event as JSON, for a sender that posts forms.
    #[serde(default)]
    form: Option<String>,
    /// The lists that hold the events of a delivery, where it may hold several: `entry[*].changes[*]`.
    #[serde(default)]
    split: Option<Split>,
    /// What becomes of events of a type that no flow takes: `reject` (the default) or `ignore`.
    #[serde(default)]
    other_types: Option<OtherTypes>,
    /// The sender's handshake.
    #[serde(default)]
    handshake: Option<Handshake>,
    /// The status that the sender takes for success: 202 unless it insists on another.
    #[serde(default)]
    success: Option<u16>,
    /// How the sender repeats a delivery that was not answered with success.
    #[serde(default)]
    retries: Option<SenderRetries>,
}

/// How a sender repeats a delivery that was not answered with success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct SenderRetries {
    /// How long after the first try the last one comes.
    #[serde(rename = "for", with = "DurationText")]
    pub within: Duration,
    /// How many tries follow the first, where the sender says.
    #[serde(default)]
    pub times: Option<u32>,
    /// Whether each try has a signature and a time of its own. Without it, or where nobody knows, the tolerance must be
    /// longer than the tries, or the later ones are rejected.
    #[serde(default)]
    pub signed_anew: bool,
}

/// The form in which a source writes its bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum BodyFormat {
    /// JSON.
    #[default]
    Json,
    /// A form. Its fields are the event's, each a text.
    Form,
}

/// What becomes of events of a type that no flow takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum OtherTypes {
    /// The sender is told that no flow takes them.
    #[default]
    Reject,
    /// They are answered with success, and nothing is stored: for senders that send more than was asked for. So are items of
    /// a delivery that lack the list of events.
    Ignore,
}

impl WrittenSource {
    /// What is in force over what the catalogue says, and what is missing.
    pub(super) fn over(self, below: &WrittenSource) -> Result<Source, &'static str> {
        let below = below.clone();
        Ok(Source {
            uses: self.uses,
            about: self.about.or(below.about),
            scheme: self.scheme.or(below.scheme).ok_or("scheme")?,
            tolerance: self.tolerance.or(below.tolerance),
            max_body: self.max_body.or(below.max_body).ok_or("max_body")?,
            rate: self.rate.or(below.rate).ok_or("rate")?,
            type_at: self.type_at.or(below.type_at),
            id_at: self.id_at.or(below.id_at),
            envelope: self.envelope.or(below.envelope).unwrap_or_default(),
            format: self.format.or(below.format).unwrap_or_default(),
            form: self.form.or(below.form),
            split: self.split.or(below.split),
            other_types: self.other_types.or(below.other_types).unwrap_or_default(),
            handshake: self.handshake.or(below.handshake),
            success: self.success.or(below.success).unwrap_or(ACCEPTED),
            retries: self.retries.or(below.retries),
        })
    }
}

/// The status of an accepted delivery, unless its sender insists on another.
const ACCEPTED: u16 = 202;

impl TryFrom<WrittenSource> for Source {
    type Error = String;

    fn try_from(written: WrittenSource) -> Result<Self, String> {
        written.over(&WrittenSource::default()).map_err(|field| format!("the field `{field}` is missing here"))
    }
}

impl Source {
    /// The largest difference between the sender's clock and ours: five minutes, unless the source names another.
    pub fn tolerance(&self) -> Duration {
        self.tolerance.unwrap_or(TOLERANCE)
    }

    /// Whether the source posts forms.
    pub fn posts_forms(&self) -> bool {
        self.form.is_some() || self.format == BodyFormat::Form
    }

    /// The type that the body names.
    pub fn type_of<'b>(&self, body: &'b Value) -> Option<&'b str> {
        self.type_at.as_ref()?.of(body)?.as_str()
    }

    /// The events in a document as its sender posts it: the whole, or each part where the source splits it. No more than
    /// `most` and one.
    pub fn events_in(&self, document: &Value, most: usize) -> Vec<Value> {
        let Some(split) = &self.split else { return vec![document.clone()] };
        let places = split.places(document, most).unwrap_or_default();
        places.iter().filter(|place| split.is_event(place)).map(|place| split.part(document, place)).collect()
    }

    /// Whether a document as its sender posts it names the type of its events, so that the path need not.
    pub fn names_types(&self, document: &Value) -> bool {
        self.events_in(document, 1).first().is_some_and(|event| self.type_of(event).is_some())
    }

    /// A document as its sender posts it: one event, in a list where the sender posts nothing but lists.
    pub fn as_posted(&self, event: Value) -> Value {
        let lists = self.split.as_ref().is_some_and(Split::is_of_the_whole);
        if lists && !event.is_array() { Value::Array(vec![event]) } else { event }
    }

    /// The id that the body names: a text, or a whole number, as many senders write it.
    pub fn id_in<'b>(&self, body: &'b Value) -> Option<Cow<'b, str>> {
        let Some(IdAt::Field(field)) = &self.id_at else { return None };
        match field.of(body)? {
            Value::String(text) => Some(Cow::Borrowed(text)),
            Value::Number(number) if !number.is_f64() => Some(Cow::Owned(number.to_string())),
            _ => None,
        }
    }
}

/// The standard in which a source wraps its events. The source says it once: no scheme signs the headers that could
/// say it of one delivery, and one captured body must not be two events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum Envelope {
    /// None: the body is the event. So is the body of a CloudEvent in binary mode.
    #[default]
    None,
    /// CloudEvents 1.0 in structured mode.
    Cloudevents,
}

/// The place of the provider's own id of an event. Only signed content will do: an attacker who could alter
/// the id could pass one event for two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdAt {
    /// A field of the body.
    Field(Field),
    /// A header that the scheme signs.
    Header {
        /// The header's name.
        header: String,
    },
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct InHeader {
    header: String,
}

impl From<Field> for IdAt {
    fn from(field: Field) -> Self {
        IdAt::Field(field)
    }
}

impl From<InHeader> for IdAt {
    fn from(InHeader { header }: InHeader) -> Self {
        IdAt::Header { header }
    }
}

impl<'de> Deserialize<'de> for IdAt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or_map::<_, Field, InHeader, _>(deserializer, "a field, as `data.id`, or `{header: webhook-id}`")
    }
}

impl Flows {
    /// Checks that the flows, read from these files, may run where strangers reach them: every source must sign. Local
    /// development may do without.
    pub fn deployable(&self, files: &[File]) -> Result<(), Problems> {
        let unsigned = self.sources.iter().filter(|(_, source)| source.scheme == Scheme::None);
        let wrong = unsigned.map(|(name, _)| {
            let what = format!("source `{name}` has the scheme none: anybody could send in its name");
            Wrong::at(step(name) + "/scheme", what)
        });
        let problems: Vec<Problem> = wrong.map(|wrong| Problem::locate(files, "sources.yaml", &wrong)).collect();
        if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
    }
}

/// The sources in force, and the mistakes in their files, each with its file's path.
pub(super) struct ResolvedSources {
    pub(super) sources: BTreeMap<String, Source>,
    pub(super) wrong: Vec<(String, Wrong)>,
}

/// Puts the sources over the catalogue. `unread` are the senders of the catalogue whose files could not be read: those
/// mistakes have been told.
pub(super) fn resolve(
    own: BTreeMap<String, WrittenSource>,
    catalog: &BTreeMap<String, WrittenSource>,
    unread: &BTreeSet<String>,
) -> ResolvedSources {
    let mut resolved = ResolvedSources { sources: BTreeMap::new(), wrong: Vec::new() };
    let here = |name: &str, wrong: Wrong| ("sources.yaml".to_owned(), wrong.under(&step(name)));
    let used: BTreeSet<String> = own.values().filter_map(|source| source.uses.clone()).collect();
    for (name, source) in own {
        let uses = source.uses.clone();
        let below = uses.as_ref().and_then(|uses| catalog.get(uses));
        if let (Some(uses), None) = (&uses, below) {
            if !unread.contains(uses) {
                let hint = suggest(uses, catalog.keys().map(String::as_str));
                let what = format!("the catalogue has no sender `{uses}`");
                resolved.wrong.push(here(&name, Wrong::at("/uses", what).hint(hint)));
            }
            continue;
        }
        match source.over(below.unwrap_or(&WrittenSource::default())) {
            Ok(source) => {
                resolved.wrong.extend(source.check(&name).into_iter().map(|wrong| here(&name, wrong)));
                resolved.sources.insert(name, source);
            }
            Err(field) => {
                let what = format!("the field `{field}` is missing here");
                resolved.wrong.push(here(&name, Wrong::at("", what)));
            }
        }
    }
    for (name, sender) in catalog {
        let there = |wrong| (Shelf::Sources.path(name), wrong);
        if sender.uses.is_some() {
            resolved.wrong.push(there(Wrong::at("/uses", "a sender of the catalogue uses no other")));
        } else if !used.contains(name) {
            // As if a source used it, and said what a catalogue does not.
            let own = WrittenSource {
                max_body: Some(MAX_BODY),
                rate: Some(Rate::per_minute(60)),
                ..WrittenSource::default()
            };
            match own.over(sender) {
                Ok(source) => resolved.wrong.extend(source.check(name).into_iter().map(there)),
                Err(field) => resolved.wrong.push(there(Wrong::at("", format!("the field `{field}` is missing here")))),
            }
        }
    }
    resolved
}

/// The largest body of one event: it travels in one message and is kept in one item, each with some wrapping.
const MAX_BODY: usize = 256 * 1024;

/// The largest body that is split, of which each event travels alone. Lambda takes a request of 6 MB, in which API Gateway
/// writes a text with its quotes escaped: at the worst, twice as long.
pub const MAX_SPLIT_BODY: usize = 2 * 1024 * 1024;

impl Source {
    /// The mistakes in a source. A tolerance that nothing enforces would promise a protection that is not there.
    fn check(&self, name: &str) -> Vec<Wrong> {
        let over_form =
            self.scheme.signature().is_some_and(|s| s.signed.0.contains(&Piece::Form)) && !self.posts_forms();
        let idle = self.tolerance.is_some() && !self.scheme.signs_time();
        let unsigned = matches!(&self.id_at, Some(IdAt::Header { header }) if !self.scheme.signs_header(header));
        let of_all = self.split.is_some() && matches!(&self.id_at, Some(IdAt::Header { .. }));
        let large = self.split.is_none() && self.max_body > MAX_BODY;
        let large_split = self.split.is_some() && self.max_body > MAX_SPLIT_BODY;
        let wrapped_twice = self.posts_forms() && self.envelope != Envelope::None;
        let in_form = self.format == BodyFormat::Form && self.form.is_some();
        let several = self.format == BodyFormat::Form && self.split.is_some();
        let no_success = !(200..=299).contains(&self.success) || [204, 205, 207].contains(&self.success);
        let handshake = self.handshake.iter().flat_map(Handshake::check).map(|wrong| wrong.under("/handshake"));
        [
            (idle, "/tolerance", "has a tolerance, but its scheme signs no timestamp"),
            (unsigned, "/id_at", "takes its id from a header that its scheme does not sign"),
            (of_all, "/id_at", "is split, and takes its id from a header, which names all of a delivery: name a field"),
            (over_form, "/scheme", "signs forms, and posts none: say `format: form`"),
            (
                in_form,
                "/form",
                "has a form whose fields are the event, and one field that holds it: say only one of them",
            ),
            (several, "/split", "has lists in a form, whose fields are texts"),
            (no_success, "/success", "has no success that can be answered: write 200, 201 or 202"),
            (large, "/max_body", "may send at most 256KiB"),
            (large_split, "/max_body", "may send at most 2MiB"),
            (wrapped_twice, "/envelope", "has a form and an envelope: a form's field holds the event itself"),
        ]
        .into_iter()
        .filter(|(wrong, ..)| *wrong)
        .map(move |(_, at, what)| Wrong::at(at, format!("source `{name}` {what}")))
        .chain(handshake)
        .collect()
    }
}

fn some_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    Size::deserialize(deserializer).map(Some)
}

fn some_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::{Encoding, ProofPlace};

    fn files(source: &str) -> [File; 1] {
        let text = format!("shop:\n  max_body: 64KiB\n  rate: 10/s\n  type_at: type\n{source}");
        [File { path: "sources.yaml".into(), text }]
    }

    fn flows(source: &str) -> Result<Flows, Problems> {
        Flows::parse(&files(source))
    }

    fn source(text: &str) -> Source {
        flows(text).expect("a good source").source("shop").expect("it is there").clone()
    }

    fn refusal(text: &str) -> String {
        flows(text).expect_err(text).to_string()
    }

    #[test]
    fn reads_every_scheme() {
        let at = |text: &str| {
            let signature = source(text).scheme.signature().expect("it signs").clone();
            let ProofPlace::Header(names) = signature.at else { panic!("a header") };
            (names[0].clone().into_owned(), signature.encoding)
        };
        for (name, header, encoding) in [
            ("standard-webhooks", "webhook-signature", Encoding::Base64),
            ("stripe", "Stripe-Signature", Encoding::Hex),
            ("github", "X-Hub-Signature-256", Encoding::Hex),
            ("shopify", "X-Shopify-Hmac-Sha256", Encoding::Base64),
            ("slack", "X-Slack-Signature", Encoding::Hex),
            ("{hmac: {header: X-Sig, algorithm: sha512, encoding: base64}}", "X-Sig", Encoding::Base64),
            ("{ecdsa: {header: X-Sig, encoding: base64}}", "X-Sig", Encoding::Base64),
        ] {
            assert_eq!(at(&format!("  scheme: {name}")), (header.to_owned(), encoding), "{name}");
        }
        assert_eq!(source("  scheme: none").scheme, Scheme::None);
        for (name, header, prefix) in [
            ("bearer", "Authorization", "Bearer "),
            ("basic", "Authorization", "Basic "),
            ("{token: {header: X-Token}}", "X-Token", ""),
        ] {
            let Scheme::Token(token) = source(&format!("  scheme: {name}")).scheme else { panic!("{name}") };
            assert_eq!((&*token.header, &*token.prefix), (header, prefix), "{name}");
        }
    }

    #[test]
    fn a_tolerance_is_five_minutes_unless_the_source_says_otherwise() {
        assert_eq!(source("  scheme: stripe").tolerance(), Duration::from_secs(300));
        assert_eq!(source("  scheme: stripe\n  tolerance: 30s").tolerance(), Duration::from_secs(30));
    }

    #[test]
    fn refuses_a_tolerance_that_nothing_enforces() {
        let hmac = "{hmac: {header: X-Signature, algorithm: sha256, encoding: hex}}";
        for scheme in ["github", "shopify", "none", hmac] {
            let refusal = refusal(&format!("  scheme: {scheme}\n  tolerance: 5m"));
            assert_eq!(refusal, "sources.yaml:6:14: source `shop` has a tolerance, but its scheme signs no timestamp");
        }
    }

    #[test]
    fn an_id_that_names_a_whole_delivery_is_no_id_of_its_events() {
        let scheme = "  scheme: standard-webhooks\n  id_at: {header: webhook-id}";
        let refused = refusal(&format!("{scheme}\n  split: entry[*]"));
        assert!(refused.contains("names all of a delivery: name a field"), "{refused}");
        assert!(source(scheme).id_at.is_some());
        assert!(source(&scheme.replace("webhook-id", "svix-id")).id_at.is_some(), "another name of the same header");
    }

    #[test]
    fn a_key_that_is_forgotten_before_its_sender_gives_up_is_warned_of() {
        let warned = |ttl: &str| {
            let flow = format!(
                "name: paid\nversion: 1\non: {{source: shop, type: paid}}\nschema: {{required: [id], properties: {{id: {{}}}}}}
key: {{version: 1, fields: [id]}}\norder_by: id\nttl: {ttl}
effects: [{{id: a, integration: crm, request: {{method: POST, path: /a}}}}]
retry: {{strategy: fixed, base: 1s, max_delay: 1s, max_attempts: 2}}\n"
            );
            let file = |path: &str, text: String| File { path: path.into(), text };
            let [sources] = files("  scheme: github\n  retries: {for: 72h}");
            let integrations = "crm: {base_url: https://crm.example.com, timeout: 2s}";
            let files = [sources, file("integrations.yaml", integrations.into()), file("flows/paid.yaml", flow)];
            Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")).warnings(&files)
        };
        assert_eq!(warned("73h"), []);
        let [warning] = &warned("72h")[..] else { panic!("one warning") };
        assert!(
            warning.to_string().starts_with("flows/paid.yaml:7:6: ttl is not longer than `shop` repeats"),
            "{warning}"
        );
    }

    #[test]
    fn what_a_source_says_goes_before_its_catalogue_and_mistakes_are_told_where_they_are() {
        let sender = |text: &str| File { path: "catalog/sources/acme.yaml".into(), text: text.into() };
        let own = |text: &str| File { path: "sources.yaml".into(), text: format!("shop: {{rate: 1/s, {text}}}") };
        let parse = |own: File, sender: File| Flows::parse(&[own, sender]).map_err(|problems| problems.to_string());
        let good = "scheme: stripe\nmax_body: 1KiB\ntype_at: kind\ntolerance: 1m\n";
        let flows = parse(own("uses: acme, tolerance: 30s"), sender(good)).expect("it is good");
        let source = flows.source("shop").expect("it is there");
        assert_eq!((source.max_body, source.tolerance(), source.success), (1024, Duration::from_secs(30), 202));
        for (text, there, told) in [
            ("uses: acne", good, "sources.yaml:1:25: the catalogue has no sender `acne` (did you mean `acme`?)"),
            ("uses: acme", "scheme: stripe\n", "sources.yaml:1:1: the field `max_body` is missing here"),
            (
                "uses: acme, tolerance: 1m",
                "scheme: github\nmax_body: 1KiB\n",
                "sources.yaml:1:42: source `shop` has a tolerance, but its scheme signs no timestamp",
            ),
            (
                "scheme: stripe, max_body: 1KiB",
                "scheme: github\nuses: other\n",
                "catalog/sources/acme.yaml:2:7: a sender of the catalogue uses no other",
            ),
            (
                "scheme: stripe, max_body: 1KiB",
                "tolerance: 1m\n",
                "catalog/sources/acme.yaml:1:1: the field `scheme` is missing here",
            ),
        ] {
            assert_eq!(parse(own(text), sender(there)).map(|_| ()), Err(told.to_owned()), "{text}");
        }
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for text in [
            "",
            "  scheme: Stripe",
            "  scheme: paypal",
            "  scheme: hmac",
            "  scheme: {stripe: {tolerance: 5m}}",
            "  scheme: stripe\n  secret: whsec_in_a_file",
        ] {
            assert!(refusal(text).starts_with("sources.yaml:"), "{text}");
        }
    }

    #[test]
    fn only_a_source_that_signs_may_be_deployed() {
        let deployable = |text| flows(text).expect("it parses").deployable(&files(text));
        assert_eq!(deployable("  scheme: github"), Ok(()));
        let refused = deployable("  scheme: none").expect_err("it is not signed");
        let sentence = "sources.yaml:5:11: source `shop` has the scheme none: anybody could send in its name";
        assert_eq!(refused.to_string(), sentence);
    }
}
