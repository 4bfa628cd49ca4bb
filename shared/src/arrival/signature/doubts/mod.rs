//! What each sender's signature must not be taken for.

mod github;
mod layouts;
mod shopify;
mod slack;
mod standard_webhooks;
mod stripe;
