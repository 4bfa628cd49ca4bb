//! A dashboard's call, as CloudWatch makes it.

use serde_json::{Map, Value};

/// The call's parameters, and the dashboard's context. The caller writes all of it: it chooses what is shown, and
/// never what is allowed.
#[derive(Clone)]
pub(crate) struct WidgetCall {
    params: Map<String, Value>,
    forms: Map<String, Value>,
    dark: bool,
}

shared::base::masked::prints_only!(WidgetCall as "WidgetCall", dark);

impl WidgetCall {
    /// The call of a widget, if the payload is one.
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

    /// The parameters of a link or a button.
    pub(super) fn params(&self) -> &Map<String, Value> {
        &self.params
    }

    /// One parameter, or an empty text.
    pub(super) fn param(&self, name: &str) -> &str {
        self.params.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The text in a field of the form, or an empty text.
    pub(super) fn field(&self, name: &str) -> &str {
        self.forms.get(name).and_then(Value::as_str).unwrap_or_default().trim()
    }
}
