//! Contacts in flow files: the templates that name one, and the names of its fields.

use serde::Deserialize;

use super::template::{Body, Scope, TemplateError};

/// The contact that an event is about, as templates over the event.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct ContactRef {
    /// The tenant that the contact belongs to.
    pub tenant: Body,
    /// The contact's email.
    pub email: Body,
}

impl ContactRef {
    /// The tenant and the email of an event's contact.
    pub fn named(&self, scope: &Scope<'_>) -> Result<(String, String), TemplateError> {
        Ok((self.tenant.text(scope)?, self.email.text(scope)?))
    }
}

/// An email in its normal form: trimmed, in lower case. Whoever writes it in another way means the same contact.
pub fn normal_email(email: &str) -> String {
    email.trim().to_lowercase()
}

/// Whether a contact's field may have this name. The names of our own attributes are reserved.
pub fn is_field_name(name: &str) -> bool {
    let legal = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
    legal
        && name.len() <= MAX_FIELD_NAME
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !RESERVED_FIELDS.contains(&name)
}

/// The longest name of a field, in bytes.
pub(crate) const MAX_FIELD_NAME: usize = 64;

/// The attributes of a contact whose names no field may have.
pub const RESERVED_FIELDS: [&str; 7] =
    ["pk", "tenant", "email", "created_at", "created_by", "updated_at", "expires_at"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_not_called_as_ours_are() {
        let long = "a".repeat(65);
        for bad in ["", "First", "first-name", "_x", "1st", "a.b", "ümlaut", &long].into_iter().chain(RESERVED_FIELDS)
        {
            assert!(!is_field_name(bad), "{bad}");
        }
        assert!(is_field_name("a") && is_field_name("utm_campaign_2"));
    }
}
