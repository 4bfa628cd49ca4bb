//! Secrets that each delivery carries.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use subtle::{Choice, ConstantTimeEq};

use super::Secret;
use crate::arrival::delivery::Headers;
use crate::flows::CarriedToken;

/// Whether a delivery carries one of these secrets. Every one is compared, so that the time taken tells nothing about which
/// one is close.
pub(super) fn is_carried(token: &CarriedToken, secrets: &[Secret], headers: &Headers) -> Option<bool> {
    let carried = headers.get(&token.header)?.strip_prefix(&*token.prefix)?;
    let live = secrets.iter().filter_map(|secret| written(token, secret));
    let found = live.fold(Choice::from(0), |found, secret| found | secret.as_bytes().ct_eq(carried.as_bytes()));
    Some(found.into())
}

/// The secret as it stands in the header. An empty one is none.
pub(super) fn written(token: &CarriedToken, secret: &Secret) -> Option<String> {
    let text = Some(secret.expose().trim()).filter(|text| !text.is_empty())?;
    match token.base64 {
        // Without a user and a password it is no secret of HTTP Basic.
        true => text.split_once(':').filter(|(_, password)| !password.is_empty()).map(|_| STANDARD.encode(text)),
        false => Some(text.to_owned()),
    }
}
