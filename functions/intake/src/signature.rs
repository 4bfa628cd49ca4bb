//! Verification of a delivery's signature, with the newest secrets where it needs them.

use shared::arrival::delivery::Delivery;
use shared::arrival::secrets::Secrets;
use shared::arrival::signature::{self, Rejected, Verified};
use shared::base::time::Timestamp;
use shared::flows::Source;

use crate::rejection::Rejection;

/// Proves that a delivery comes from its source.
///
/// A sender that has rotated its secret signs with one that is not in the cache yet. So a rejection is final
/// only with the newest secrets, or when the store was asked for them a moment ago.
pub(crate) async fn verify_signature(
    secrets: &dyn Secrets,
    source: &Source,
    delivery: Delivery,
    now: Timestamp,
) -> Result<Verified, Rejection> {
    let path = format!("sources/{}", delivery.source);
    let live = secrets.live(&path).await?;
    let unproven = match signature::verify(source, &live, delivery, now) {
        Ok(verified) => return Ok(verified),
        Err(unproven) => unproven,
    };
    let renewed = secrets.renewed(&path).await?.ok_or(Rejected)?;
    Ok(signature::verify(source, &renewed, unproven.into_delivery(), now).map_err(Rejected::from)?)
}
