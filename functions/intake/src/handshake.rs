//! Handshakes that a sender asks by `GET` or `HEAD`. Those by `POST` are deliveries, and verified like all.

use shared::flows::HandshakeMethod;

use crate::accept::Intake;
use crate::rejection::Rejection;
use crate::secret_match::is_live;

/// The longest token that is compared.
const MAX_TOKEN: usize = 512;

/// The challenge that a sender wants back: only of a source that has handshakes, and with its token.
///
/// Nothing is stored. What is no handshake gets the same answer as a source that does not exist.
pub(crate) async fn handshake(intake: &Intake, name: &str, query: &str) -> Result<String, Rejection> {
    let handshake = intake.flows.source(name).and_then(|source| source.handshake.as_ref());
    let handshake = handshake.ok_or(Rejection::UnknownSource)?;
    let query: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let asked = handshake.in_query(&query).ok_or(Rejection::UnknownSource)?;
    let token = asked.token.filter(|token| (1..=MAX_TOKEN).contains(&token.len())).ok_or(Rejection::BadHandshake)?;
    // Asked once more where none fits: a token that was just put there is not in the cache yet.
    let path = format!("handshakes/{name}");
    if !is_live(&intake.secrets.live(&path).await?, token) {
        let renewed = intake.secrets.renewed(&path).await?.ok_or(Rejection::BadHandshake)?;
        if !is_live(&renewed, token) {
            return Err(Rejection::BadHandshake);
        }
    }
    asked.challenge.map(str::to_owned).ok_or(Rejection::Malformed)
}

/// Whether the sender of a source asks by `HEAD` if anybody is there. There is nothing to say but that.
pub(crate) fn is_there(intake: &Intake, name: &str) -> Result<(), Rejection> {
    let handshake = intake.flows.source(name).and_then(|source| source.handshake.as_ref());
    let asks = handshake.is_some_and(|handshake| handshake.method == HandshakeMethod::Head);
    if asks { Ok(()) } else { Err(Rejection::UnknownSource) }
}
