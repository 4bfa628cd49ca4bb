//! What authenticates us to a partner: a secret, or a token that was fetched for it.

use std::time::Duration;

use shared::arrival::signature::Secret;
use shared::base::errors::Unavailable;
use shared::effects::credentials::{Credentials, Signing};
use shared::effects::request::SecretVars;
use shared::effects::token::{NoToken, NoTokenReason, TokenAccount, TokenPorts};
use shared::flows::{Auth, Integration, TokenGrant};
use shared::ledger::CallError;
use shared::limits::pressure::{CallEnd, Deferral, DeferralReason};
use shared::operate::metric::Fact;
use tracing::warn;

use crate::call_spans::TokenEndpoint;
use crate::hindrance::Hindrance;
use crate::work::{LAST_WRITES, Processor, Work};

/// The reason why there are no credentials for a request.
pub(crate) enum NoCredentials {
    /// A secret of ours is missing, or cannot be used.
    BadSecret(String),
    /// The store of secrets did not answer, and this container does not know the secret yet.
    NoSecretStore(Unavailable),
    /// The partner takes a token, and there is none now.
    NoToken(NoToken),
}

impl NoCredentials {
    /// What the event waits for, and what that says of the partner's health.
    pub(crate) fn hindrance(&self, work: &Work<'_>, integration: &str) -> (Hindrance, CallEnd) {
        match self {
            // No other call will do better.
            NoCredentials::BadSecret(error) => {
                (until_secret_is_there(work, integration, error), CallEnd::CredentialsRejected)
            }
            NoCredentials::NoSecretStore(error) => {
                (Hindrance::passing(until_secrets_are_read(work, error)), CallEnd::Neutral)
            }
            NoCredentials::NoToken(no_token) => (hindrance_of(no_token, integration), end_of(no_token)),
        }
    }
}

/// How long an event waits at least after our credentials were rejected: a human must put them right.
const CREDENTIALS_WAIT: Duration = Duration::from_secs(30);

/// The hindrance by credentials that a partner did not take.
pub(crate) fn until_credentials_are_right(work: &Work<'_>, integration: &str, error: &CallError) -> Hindrance {
    let (event, flow, trace_id) = work.ids();
    let told = "the partner rejected our credentials; its events are deferred until they are right";
    warn!(event, flow, trace_id, integration, error = error.told(), "{told}");
    until_somebody_acts(work, integration, DeferralReason::CredentialsRejected)
}

/// The hindrance by a secret of ours that is missing, or that cannot be used.
pub(crate) fn until_secret_is_there(work: &Work<'_>, integration: &str, error: &str) -> Hindrance {
    let (event, flow, trace_id) = work.ids();
    let told = "a partner's secret is missing or cannot be used; its events are deferred until it is put right";
    warn!(event, flow, trace_id, integration, error, "{told}");
    until_somebody_acts(work, integration, DeferralReason::NoSecret)
}

fn until_somebody_acts(work: &Work<'_>, integration: &str, why: DeferralReason) -> Hindrance {
    work.count(Fact::CredentialsRejected(integration));
    Hindrance::of_partner(Deferral { after: CREDENTIALS_WAIT, why }, integration)
}

/// The deferral of an event while the store of secrets does not answer.
pub(crate) fn until_secrets_are_read(work: &Work<'_>, unavailable: &Unavailable) -> Deferral {
    let (event, flow, trace_id) = work.ids();
    warn!(event, flow, trace_id, %unavailable, "a partner's secret was not read; the event is deferred until it is");
    Deferral { after: Unavailable::BACK_OFF, why: DeferralReason::SecretsUnavailable }
}

/// The number of failed fetches in a row after which a partner counts as down.
const FAILURES_OF_ONE_DOWN: u32 = 3;

/// The credentials for one request. `id` names the request, the same each time that it is repeated.
pub(crate) async fn credentials(
    work: &Work<'_>,
    name: &str,
    partner: &Integration,
    id: String,
) -> Result<Credentials, NoCredentials> {
    if partner.auth == Auth::None {
        return Ok(Credentials::None);
    }
    let secret = secret(work, name).await?;
    let Some(grant) = partner.auth.token_grant() else {
        return Ok(Credentials::of_secret(&partner.auth, &secret, Signing { id, at: work.now() }));
    };
    let account = account(work, name, partner, grant, &secret);
    let endpoint = TokenEndpoint { work, integration: name };
    match work.processor.tokens.token(&account, ports(&endpoint)).await {
        Ok(token) => Ok(account.shows(&token)),
        Err(NoToken { why: NoTokenReason::BadSecret(error), .. }) => Err(NoCredentials::BadSecret(error)),
        Err(no_token) => Err(NoCredentials::NoToken(tell(work, name, no_token))),
    }
}

/// Whether a call to the partner needs no question for a token.
pub(crate) fn has_token(work: &Work<'_>, name: &str, partner: &Integration) -> bool {
    partner.auth.token_grant().is_none() || work.processor.tokens.holds(name, work.now())
}

/// Sees to it that there is a token, where the partner takes one. A secret that is missing or cannot be used is found
/// out with the call.
pub(crate) async fn prepare_token(work: &Work<'_>, name: &str, partner: &Integration) -> Result<(), NoToken> {
    if has_token(work, name, partner) {
        return Ok(());
    }
    match credentials(work, name, partner, String::new()).await {
        Ok(_) | Err(NoCredentials::BadSecret(_) | NoCredentials::NoSecretStore(_)) => Ok(()),
        Err(NoCredentials::NoToken(no_token)) => Err(no_token),
    }
}

/// The credentials with another token than the one that the partner rejected, if there is one.
pub(crate) async fn renewed(
    work: &Work<'_>,
    name: &str,
    partner: &Integration,
    rejected: &Credentials,
) -> Option<Credentials> {
    let grant = partner.auth.token_grant()?;
    let secret = secret(work, name).await.ok()?;
    let account = account(work, name, partner, grant, &secret);
    let endpoint = TokenEndpoint { work, integration: name };
    let token = work.processor.tokens.renewed(&account, ports(&endpoint), rejected).await;
    token.map(|token| account.shows(&token)).map_err(|no_token| tell(work, name, no_token)).ok()
}

/// The partner's secret.
async fn secret(work: &Work<'_>, name: &str) -> Result<Secret, NoCredentials> {
    let secret = newest(work, &format!("integrations/{name}")).await?;
    secret.ok_or_else(|| NoCredentials::BadSecret(format!("there is no secret for `{name}`")))
}

/// The secret variables of a partner.
pub(crate) async fn secret_vars(
    work: &Work<'_>,
    name: &str,
    partner: &Integration,
) -> Result<SecretVars, NoCredentials> {
    let mut secrets = SecretVars::new();
    for var in partner.vars.secrets() {
        let bad = |error: String| Err(NoCredentials::BadSecret(error));
        let Some(secret) = newest(work, &format!("integrations/{name}/vars/{var}")).await? else {
            return bad(format!("there is no secret for the variable `{var}` of `{name}`"));
        };
        // It is the secret that is wrong, and no event: somebody puts it right, and the event goes on.
        if !secret.is_one_line() {
            return bad(format!(
                "the secret variable `{var}` of `{name}` has a line break or a control character in it"
            ));
        }
        secrets.insert(var.to_owned(), secret);
    }
    Ok(secrets)
}

/// The newest secret at a path, which is the last by name.
async fn newest(work: &Work<'_>, path: &str) -> Result<Option<Secret>, NoCredentials> {
    let live = work.processor.secrets.live(path).await.map_err(NoCredentials::NoSecretStore)?;
    Ok(live.last().cloned())
}

fn account<'a>(
    work: &Work<'_>,
    integration: &'a str,
    partner: &Integration,
    grant: TokenGrant<'a>,
    secret: &'a Secret,
) -> TokenAccount<'a> {
    let left = work.deadline.since(work.now()).saturating_sub(LAST_WRITES);
    TokenAccount { integration, grant, secret, timeout: partner.timeout.min(left) }
}

fn ports<'e>(endpoint: &'e TokenEndpoint<'_>) -> TokenPorts<'e> {
    let Processor { clock, sleep, chance, .. } = endpoint.work.processor;
    TokenPorts { partners: endpoint, clock: &**clock, sleep: &**sleep, chance: &**chance }
}

/// Logs a fetch that failed, once: whoever hears of it later only waits.
fn tell(work: &Work<'_>, integration: &str, no_token: NoToken) -> NoToken {
    use NoTokenReason::{Denied, Failing};
    if matches!(no_token.why, Denied { error: Some(_) }) {
        work.count(Fact::CredentialsRejected(integration));
    }
    if let Failing { error: Some(error), .. } | Denied { error: Some(error) } = &no_token.why {
        let (event, flow, trace_id) = work.ids();
        let told = "the token end-point gave no token; the event is deferred, and the next try is later";
        warn!(event, flow, trace_id, integration, %error, "{told}");
    }
    no_token
}

/// The deferral of an event that there is no token for.
pub(crate) fn deferral_of(no_token: &NoToken) -> Deferral {
    let NoToken { after, why } = no_token;
    let (after, why) = match why {
        NoTokenReason::Denied { .. } => ((*after).max(CREDENTIALS_WAIT), DeferralReason::CredentialsRejected),
        NoTokenReason::Unavailable(_) => (*after, DeferralReason::LimitsUnavailable),
        NoTokenReason::Awaited | NoTokenReason::Failing { .. } | NoTokenReason::BadSecret(_) => {
            (*after, DeferralReason::NoToken)
        }
    };
    Deferral { after, why }
}

/// The hindrance by a token that cannot be had: one that passes, or the partner is down.
pub(crate) fn hindrance_of(no_token: &NoToken, integration: &str) -> Hindrance {
    match end_of(no_token) {
        CallEnd::CredentialsRejected | CallEnd::NoToken => Hindrance::of_partner(deferral_of(no_token), integration),
        CallEnd::Success | CallEnd::Failure | CallEnd::LostEvent | CallEnd::Neutral => {
            Hindrance::passing(deferral_of(no_token))
        }
    }
}

/// What a token that cannot be had says of the partner's health.
pub(crate) fn end_of(no_token: &NoToken) -> CallEnd {
    match no_token.why {
        NoTokenReason::Denied { .. } => CallEnd::CredentialsRejected,
        NoTokenReason::Failing { failures: FAILURES_OF_ONE_DOWN.., .. } => CallEnd::NoToken,
        NoTokenReason::Failing { .. } => CallEnd::Failure,
        NoTokenReason::Awaited | NoTokenReason::Unavailable(_) | NoTokenReason::BadSecret(_) => CallEnd::Neutral,
    }
}
