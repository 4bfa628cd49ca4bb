//! An export sent to a running cloud: signed, at a bounded rate, and going on where it stopped.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use shared::arrival::signature::Secret;
use shared::base::time::Timestamp;
use shared::flows::{File, Flows};
use shared::limits::rates::Rate;
use sim::stage::{HttpDelivery, Posted, SenderSigning};

use super::export::{Export, ExportLine};
use super::fate::{DeliveryFates, EventFate};
use super::progress::{KeptProgress, SentThing, hash_of};
use super::report::RehearsalReport;
use super::route::{ChosenRoute, posted};
use crate::output;

/// How often a line is sent again that was not answered well.
const TRIES: u32 = 6;

/// The longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// The wait before a line is sent again, unless the answer names one, and the longest that it may name.
const AGAIN: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));

/// Where an export is sent, and how.
pub(super) struct Target<'t> {
    /// The URL of the intake.
    pub(super) url: &'t str,
    /// The secret that signs.
    pub(super) secret: &'t str,
    /// How fast.
    pub(super) rate: Rate,
    /// The file, beside which it is kept how much was sent.
    pub(super) export: &'t Path,
    /// Whose lines they are.
    pub(super) route: ChosenRoute<'t>,
}

/// Sends an export to the intake at this URL.
pub(super) fn send(
    mut export: Export,
    (flows, files): (&Flows, &[File]),
    target: &Target<'_>,
    mut told: impl FnMut(u64),
) -> Result<RehearsalReport> {
    let began = Instant::now();
    let ChosenRoute { source, flow } = target.route;
    let of = SentThing {
        export: export.identity().to_owned(),
        flows: hash_of(files),
        url: target.url.to_owned(),
        route: (source.map(str::to_owned), flow.map(str::to_owned)),
    };
    let mut kept = KeptProgress::read(target.export, of)?;
    let sender = LineSender::new(flows, target)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let before = kept.progress.line;
    while let Some(line) = export.next_line()? {
        if line.number <= kept.progress.line {
            continue;
        }
        let may_have_arrived = kept.progress.under_way == Some(line.number);
        let posted = posted(&line, flows, target.route)?;
        let can_sign = sender.can_sign(&posted)?;
        kept.begin(line.number)?;
        let sent = match can_sign {
            true => runtime.block_on(sender.send(&line, &posted))?,
            false => SentLine::malformed(),
        };
        if sent.fates.are_unsigned() {
            kept.take_back()?;
            bail!(
                "line {} was rejected as `bad-signature`: the secret in --secret-file is not that of `{}` at {}. Nothing was \
                 sent after it. Correct the file: the same command goes on with this line",
                line.number,
                posted.source,
                target.url
            );
        }
        note(&mut kept.progress.report, sent, may_have_arrived);
        kept.end(line.number)?;
        told(export.position());
    }
    if before > 0 && kept.progress.line == before {
        output::print_notice(&kept.nothing_left());
    }
    Ok(RehearsalReport { took: began.elapsed(), ..kept.progress.report })
}

/// Counts what became of a line. An event that is known, after a try whose answer was lost, may be known by that try.
fn note(report: &mut RehearsalReport, sent: SentLine, may_have_arrived: bool) {
    report.lines += 1;
    for fates in sent.fates.0 {
        report.events += 1;
        for fate in fates {
            match fate {
                EventFate::Accepted(_) => report.accepted += 1,
                EventFate::Duplicate(_) if sent.answer_was_lost || may_have_arrived => report.in_doubt += 1,
                EventFate::Duplicate(_) => report.duplicates += 1,
                EventFate::Ignored => report.ignored += 1,
                EventFate::Rejected(problem) => *report.rejected.entry(problem).or_default() += 1,
            }
        }
    }
}

/// What became of a line that was sent.
struct SentLine {
    fates: DeliveryFates,
    /// Whether a try before the last may have arrived, although nothing was heard of it.
    answer_was_lost: bool,
}

impl SentLine {
    fn malformed() -> Self {
        SentLine { fates: DeliveryFates(vec![vec![EventFate::Rejected("malformed".into())]]), answer_was_lost: false }
    }
}

/// Sends lines, one after the other.
struct LineSender<'s> {
    flows: &'s Flows,
    base: &'s str,
    secret: Secret,
    /// The time between two requests.
    apart: Duration,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl<'s> LineSender<'s> {
    fn new(flows: &'s Flows, target: &Target<'s>) -> Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        let tls = HttpsConnectorBuilder::new().with_native_roots().context("this machine has no root certificates")?;
        let client =
            Client::builder(TokioExecutor::new()).build(tls.https_or_http().enable_http1().wrap_connector(tcp));
        let apart = target.rate.per() / target.rate.count().max(1);
        let (base, secret) = (target.url.trim_end_matches('/'), Secret::new(target.secret));
        Ok(LineSender { flows, base, secret, apart, client })
    }

    fn signed(&self, posted: &Posted) -> Option<HttpDelivery> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = Timestamp::from_secs(i64::try_from(now.as_secs()).unwrap_or_default());
        HttpDelivery::signed_with(self.flows, posted, SenderSigning { at, secret: &self.secret, base: self.base })
    }

    /// Whether the line can be signed: its sender could have made it.
    fn can_sign(&self, posted: &Posted) -> Result<bool> {
        let plain = || Posted { body: b"{}".to_vec(), ..posted.clone() };
        match self.signed(posted) {
            Some(_) => Ok(true),
            None if self.signed(&plain()).is_some() => Ok(false),
            None => bail!("nothing was sent: what --secret-file has is no secret of the scheme of `{}`", posted.source),
        }
    }

    async fn send(&self, line: &ExportLine, posted: &Posted) -> Result<SentLine> {
        let (mut fates, mut answer_was_lost, mut wait) = (None, false, self.apart);
        for _ in 0..TRIES {
            tokio::time::sleep(wait).await;
            let delivery = self.signed(posted).context("a line that could be signed no longer can")?;
            let answered = tokio::time::timeout(ANSWER, self.client.request(self.request(delivery)?)).await;
            let Ok(Ok(response)) = answered else {
                (answer_was_lost, wait) = (true, AGAIN.0);
                continue;
            };
            let status = response.status().as_u16();
            wait = wait_of(&response);
            let replayed = response.headers().get("idempotent-replayed").is_some_and(|value| value == "true");
            let Ok(Ok(body)) = tokio::time::timeout(ANSWER, response.into_body().collect()).await else {
                answer_was_lost = true;
                continue;
            };
            let body = serde_json::from_slice::<Value>(&body.to_bytes()).unwrap_or_default();
            let heard = DeliveryFates::of(status, replayed, &body).after(fates.take());
            if status != 429 && status < 500 {
                return Ok(SentLine { fates: heard, answer_was_lost });
            }
            // A gateway's 5xx says nothing of what the function behind it did.
            answer_was_lost |= status >= 500 && body["results"].is_null();
            fates = Some(heard);
        }
        bail!(
            "line {} was not answered {TRIES} times. What was sent is kept: the same command goes on with it",
            line.number
        )
    }

    fn request(&self, delivery: HttpDelivery) -> Result<Request<Full<Bytes>>> {
        let query = if delivery.query.is_empty() { String::new() } else { format!("?{}", delivery.query) };
        let mut request = Request::post(format!("{}{}{query}", self.base, delivery.path));
        for (name, value) in &delivery.headers {
            request = request.header(name, value);
        }
        Ok(request.body(Full::new(Bytes::from(delivery.body)))?)
    }
}

fn wait_of(response: &Response<Incoming>) -> Duration {
    let asked = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
    asked.map_or(AGAIN.0, Duration::from_secs).min(AGAIN.1)
}
