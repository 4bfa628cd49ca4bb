//! Tokens for partners that do not take our secret itself: fetched by one container, shared by all.
//!
//! What all containers share of a token is one item: the token, sealed by our secret; when it ends; who fetches; and
//! how the last fetches went. Each write replaces the whole item under the condition that it is still the version that
//! was seen, so every change is a function of [`TokenState`], made on a known state.
//!
//! - A container that has a token which is not near its end asks nobody: no read, no write, no fetch.
//! - One that has none reads the item. If nobody fetches, it takes the lease by one conditional write, and fetches. The
//!   others wait for a moment, and then defer their events.
//! - A token is renewed before it ends. Whoever has it goes on with it meanwhile, also if the fetch fails.
//! - A fetch that fails delays the next one, for all containers, longer each time.
//! - A partner that rejects a token did nothing. Only the token that was rejected is renewed, and not twice a minute: a
//!   partner that rejects every token would be asked for them without end.
//!
//! The item's key is made of the secret, and so is the key that seals: under another secret, or for other scopes, there
//! is another item. So nothing has to be removed when a secret is rotated, and two versions of the flows do not take
//! each other's tokens away.

mod container_tokens;
mod crypto;
mod fetch;
mod jwt;
mod obtain;
mod seal;
mod state;

pub use container_tokens::{NoToken, NoTokenReason, TokenAccount, TokenPorts, Tokens};
pub use crypto::{SealingKey, SigningKey, TokenCrypto};
pub use state::{SealedToken, TokenState, TokenStore, TokenSwap};
