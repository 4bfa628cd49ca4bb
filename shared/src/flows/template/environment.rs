//! The template engine's environments, built once: a render pays for none of them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use minijinja::value::{Object, Value as Jinja, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Expression, UndefinedBehavior};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::since::since;
use super::{dates, filters};

/// Every character but those that RFC 3986 calls unreserved: an encoded `_` names the same resource, and not every
/// partner knows that.
pub const NOT_UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The environment for texts. An undefined value is an error, and so is `none` inside of a text: it would read "none".
pub(super) fn text() -> &'static Environment<'static> {
    static TEXT: LazyLock<Environment<'static>> = LazyLock::new(|| {
        let mut environment = with_behavior(UndefinedBehavior::Strict);
        environment.set_formatter(|out, state, value| match value.is_none() {
            true => Err(Error::new(ErrorKind::InvalidOperation, "a text has none in it: write default('')")),
            false => minijinja::escape_formatter(out, state, value),
        });
        environment
    });
    &TEXT
}

/// The environment for paths. Every character of a value that could mean something in a URL is encoded. A list or an
/// object has no place there, an empty value would name another resource, and a boolean is spelled as in JSON.
pub(super) fn path() -> &'static Environment<'static> {
    static PATH: LazyLock<Environment<'static>> = LazyLock::new(|| {
        let mut environment = with_behavior(UndefinedBehavior::Strict);
        environment.set_formatter(|out, _, value| {
            let text = plain_text(value).unwrap_or_default();
            if text.is_empty() {
                return Err(Error::new(ErrorKind::InvalidOperation, "a path takes plain values that are there"));
            }
            Ok(write!(out, "{}", utf8_percent_encode(&text, NOT_UNRESERVED))?)
        });
        environment
    });
    &PATH
}

/// The environment for templates that are only tried out, with nothing to render from: what is undefined says nothing.
pub(super) fn trial() -> &'static Environment<'static> {
    static TRIAL: LazyLock<Environment<'static>> = LazyLock::new(|| {
        let mut environment = with_behavior(UndefinedBehavior::Chainable);
        filters::add_strict(&mut environment);
        environment
    });
    &TRIAL
}

/// The environment for what may be undefined: answers of partners.
pub(in crate::flows) fn lenient() -> &'static Environment<'static> {
    static LENIENT: LazyLock<Environment<'static>> = LazyLock::new(|| with_behavior(UndefinedBehavior::Chainable));
    &LENIENT
}

/// The expressions of one environment that were compiled: to compile one costs more than to evaluate it, and those of the
/// flow files come again with every event.
#[derive(Default)]
struct CompiledExpressions(Mutex<HashMap<String, CompiledExpression>>);

pub(in crate::flows) type CompiledExpression = Arc<Expression<'static, 'static>>;

/// More than any flow files have. Who checks flows all day begins anew then.
const MOST_COMPILED: usize = 4096;

impl CompiledExpressions {
    /// The compiled form of an expression in this environment, which is always the same.
    fn get(&self, environment: &'static Environment<'static>, expression: &str) -> Result<CompiledExpression, Error> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = known.get(expression) {
            return Ok(Arc::clone(compiled));
        }
        let compiled = Arc::new(environment.compile_expression_owned(expression.to_owned())?);
        if known.len() >= MOST_COMPILED {
            known.clear();
        }
        known.insert(expression.to_owned(), Arc::clone(&compiled));
        Ok(compiled)
    }
}

/// An expression in the environment for texts.
pub(super) fn text_expression(expression: &str) -> Result<CompiledExpression, Error> {
    static COMPILED: LazyLock<CompiledExpressions> = LazyLock::new(CompiledExpressions::default);
    COMPILED.get(text(), expression)
}

/// An expression in the environment for what may be undefined.
pub(in crate::flows) fn lenient_expression(expression: &str) -> Result<CompiledExpression, Error> {
    static COMPILED: LazyLock<CompiledExpressions> = LazyLock::new(CompiledExpressions::default);
    COMPILED.get(lenient(), expression)
}

fn with_behavior(behavior: UndefinedBehavior) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(behavior);
    environment.add_global("omit", Jinja::from_object(Omit));
    filters::add(&mut environment);
    dates::add(&mut environment);
    environment.add_filter("since", since);
    environment
}

/// A text, a number or a boolean as it is written out.
pub(super) fn plain_text(value: &Jinja) -> Option<String> {
    match value.kind() {
        ValueKind::String => Some(value.to_string()),
        ValueKind::Bool | ValueKind::Number => serde_json::to_string(value).ok(),
        _ => None,
    }
}

/// The value `omit`: whatever has it is left out.
#[derive(Debug)]
struct Omit;

impl Object for Omit {
    /// It is no text: inside of one there is nothing to leave out.
    fn render(self: &Arc<Self>, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Err(fmt::Error)
    }
}

/// Whether a value is `omit`.
pub(super) fn is_omit(value: &Jinja) -> bool {
    value.downcast_object_ref::<Omit>().is_some()
}
