//! The filters and tests that an expression names, so that they can be looked up before an event comes.
//!
//! The template engine looks them up only where it evaluates them, and behind an `and` that is false it does not.

/// A name that an expression has looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UsedName<'e> {
    /// `value | name`
    Filter(&'e str),
    /// `value is name`, or `value is not name`
    Test(&'e str),
}

impl UsedName<'_> {
    /// The shortest expression that looks up the same name.
    pub(super) fn alone(self) -> String {
        match self {
            UsedName::Filter(name) => format!("{{{{ none | {name} }}}}"),
            UsedName::Test(name) => format!("{{{{ none is {name} }}}}"),
        }
    }
}

/// The filters and tests of a well-formed expression, in order. Texts in quotes are passed over.
pub(super) fn used_names(expression: &str) -> Vec<UsedName<'_>> {
    let mut found = Vec::new();
    let mut before = ExpressionToken::Other;
    for token in tokens(expression) {
        match (before, token) {
            (ExpressionToken::Pipe, ExpressionToken::Word(name)) => found.push(UsedName::Filter(name)),
            (ExpressionToken::Word("is"), ExpressionToken::Word("not")) => continue,
            (ExpressionToken::Word("is"), ExpressionToken::Word(name)) => found.push(UsedName::Test(name)),
            _ => (),
        }
        before = token;
    }
    found
}

/// As much of an expression as tells its filters and tests.
#[derive(Clone, Copy)]
enum ExpressionToken<'e> {
    /// A name that is no field of another.
    Word(&'e str),
    Pipe,
    Other,
}

fn tokens(expression: &str) -> Vec<ExpressionToken<'_>> {
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' | '\'' => quoted(rest, first),
            '.' => 1 + rest[1..].chars().take_while(|c| is_name(*c)).count(),
            c if is_name(c) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, more) = rest.split_at(length);
        tokens.push(match first {
            '|' => ExpressionToken::Pipe,
            c if is_name(c) => ExpressionToken::Word(token),
            _ => ExpressionToken::Other,
        });
        rest = more.trim_start();
    }
    tokens
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The length of the text in quotes at the start, the quotes included.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == quote && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::UsedName::{Filter, Test};
    use super::*;

    #[test]
    fn each_name_is_found_wherever_it_stands() {
        for (expression, expected) in [
            ("event.total >= 20", vec![]),
            (
                "event.name | lower == 'x' and event.other|trim|upper",
                vec![Filter("lower"), Filter("trim"), Filter("upper")],
            ),
            ("event.a is defined or event.b is not none", vec![Test("defined"), Test("none")]),
            ("event.is.x == 'a | b is c' and event.y[\"it\\\" | is\"] is divisibleby(3)", vec![Test("divisibleby")]),
            ("(event.a | default('é')) is in ['x | y']", vec![Filter("default"), Test("in")]),
        ] {
            assert_eq!(used_names(expression), expected, "{expression}");
        }
    }
}
