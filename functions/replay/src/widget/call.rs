//! A dashboard's call, as CloudWatch makes it.

use serde_json::{Map, Value};

/// Our own parameters, and what the dashboard says beside them. Whoever invokes the function writes all of
/// it: it chooses what is shown, and never what is allowed.
#[derive(Clone, Debug)]
pub(crate) struct WidgetCall {
    params: Map<String, Value>,
    forms: Map<String, Value>,
    dark: bool,
}

impl WidgetCall {
    /// The call of a widget, if this is one.
    pub(crate) fn of(payload: &Value) -> Option<Self> {
        let mut params = payload.as_object()?.clone();
        let context = params.remove("widgetContext")?;
        let forms = context.pointer("/forms/all").and_then(Value::as_object).cloned();
        Some(WidgetCall { params, forms: forms.unwrap_or_default(), dark: context["theme"] == "dark" })
    }

    /// Whether the dashboard is dark.
    pub(super) fn is_dark(&self) -> bool {
        self.dark
    }

    /// What a link or a button carries.
    pub(super) fn params(&self) -> &Map<String, Value> {
        &self.params
    }

    /// One parameter, or nothing.
    pub(super) fn param(&self, name: &str) -> &str {
        self.params.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// What somebody wrote into a field, or nothing.
    pub(super) fn field(&self, name: &str) -> &str {
        self.forms.get(name).and_then(Value::as_str).unwrap_or_default().trim()
    }
}
