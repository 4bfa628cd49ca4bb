//! Mutants of the anchors.

use async_trait::async_trait;
use shared::arrival::window::{Anchors, Sighting, Windows};
use shared::base::errors::Unavailable;
use shared::model::ModelWindows;

type Written = Result<Result<(), Anchors>, Unavailable>;

/// Reads the anchors, and then writes what it made of them, whatever others wrote meanwhile.
pub(super) struct ReadThenWritten(pub(super) ModelWindows, pub(super) Box<dyn Windows>);

#[async_trait]
impl Windows for ReadThenWritten {
    async fn append(&self, sighting: &Sighting) -> Written {
        let mut anchors = self.0.get(&sighting.key);
        if !anchors.end_before(sighting) {
            return Ok(Err(anchors));
        }
        // The write takes its time.
        let _ = self.1.append(sighting).await?;
        anchors.moments.push(sighting.moment);
        self.0.overwrite(&sighting.key, anchors);
        Ok(Ok(()))
    }

    async fn replace(&self, sighting: &Sighting, next: &Anchors) -> Written {
        let _ = self.1.replace(sighting, next).await?;
        self.0.overwrite(&sighting.key, next.clone());
        Ok(Ok(()))
    }
}

/// Takes the start of a fixed stretch of time for the anchor.
pub(super) struct FixedEdges;

#[async_trait]
impl Windows for FixedEdges {
    async fn append(&self, sighting: &Sighting) -> Written {
        Ok(Err(Anchors { moments: vec![sighting.moment.floor(sighting.within)], ..Anchors::default() }))
    }

    async fn replace(&self, _: &Sighting, _: &Anchors) -> Written {
        Ok(Ok(()))
    }
}

/// Sees no anchor that is later than the delivery.
pub(super) struct EarlierAlone(pub(super) Box<dyn Windows>);

impl EarlierAlone {
    fn hide(sighting: &Sighting, written: Result<(), Anchors>) -> Result<(), Anchors> {
        written.map_err(|mut anchors| {
            anchors.moments.retain(|anchor| *anchor <= sighting.moment);
            anchors
        })
    }
}

#[async_trait]
impl Windows for EarlierAlone {
    async fn append(&self, sighting: &Sighting) -> Written {
        Ok(Self::hide(sighting, self.0.append(sighting).await?))
    }

    async fn replace(&self, sighting: &Sighting, next: &Anchors) -> Written {
        Ok(Self::hide(sighting, self.0.replace(sighting, next).await?))
    }
}
