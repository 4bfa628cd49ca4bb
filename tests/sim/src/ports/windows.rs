//! The anchors of keys with a window, one step at a time.

use async_trait::async_trait;
use futures::executor::block_on;
use shared::arrival::window::{Anchors, Sighting, Windows};
use shared::base::errors::Unavailable;
use shared::model::ModelWindows;

use super::{PortCall, Seat, short};

/// The anchors, as one container sees them.
#[derive(Clone)]
pub(crate) struct SimWindows {
    pub(crate) seat: Seat,
    pub(crate) windows: ModelWindows,
}

#[async_trait]
impl Windows for SimWindows {
    async fn append(&self, sighting: &Sighting) -> Result<Result<(), Anchors>, Unavailable> {
        let about = format!("{} {}", short(&sighting.key), sighting.moment);
        let (windows, late) = (self.windows.clone(), sighting.clone());
        let call = PortCall::of("anchor", &about).with_echo(move || drop(block_on(windows.append(&late))));
        self.seat.call(call, self.windows.append(sighting), tell).await?
    }

    async fn replace(&self, sighting: &Sighting, next: &Anchors) -> Result<Result<(), Anchors>, Unavailable> {
        let about = format!("{} {} v{}", short(&sighting.key), sighting.moment, next.version);
        let (windows, late) = (self.windows.clone(), (sighting.clone(), next.clone()));
        let again = move || drop(block_on(windows.replace(&late.0, &late.1)));
        let call = PortCall::of("anchor between", &about).with_echo(again);
        self.seat.call(call, self.windows.replace(sighting, next), tell).await?
    }
}

fn tell(answer: &Result<Result<(), Anchors>, Unavailable>) -> String {
    match answer {
        Ok(Ok(())) => "written".into(),
        Ok(Err(anchors)) => format!("refused: {} anchors, v{}", anchors.moments.len(), anchors.version),
        Err(error) => error.to_string(),
    }
}
