//! AlarmMetric math, as far as alarms use it: numbers, ids of queries, `+ - * /`, comparisons, `AND`, `OR`, `IF`, `FILL`,
//! and `MAX` and `SUM` of several series.

use super::evaluate::Unknown;

/// A value of an expression. A series has a data point for each period that is looked at, the newest first.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MathOperand {
    Number(f64),
    Series(Vec<Option<f64>>),
    Several(Vec<Vec<Option<f64>>>),
}

/// The value of an expression over queries that are looked up by their ids.
pub(super) fn value(expression: &str, unknown: Unknown, query: &dyn Fn(&str) -> MathOperand) -> MathOperand {
    let mut reader = Reader { tokens: tokens(expression), at: 0, unknown, query };
    let value = reader.binary(0);
    assert_eq!(reader.at, reader.tokens.len(), "{expression} was not read to its end");
    value
}

/// The words, numbers and signs of an expression.
pub(crate) fn tokens(expression: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut last = ' ';
    for c in expression.chars() {
        let joins = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let one = (joins(c) && joins(last)) || (c == '=' && matches!(last, '<' | '>' | '=' | '!'));
        match tokens.last_mut().filter(|_| one) {
            Some(token) => token.push(c),
            None if !c.is_whitespace() => tokens.push(c.into()),
            None => (),
        }
        last = c;
    }
    tokens
}

/// Operators, those that bind the least first.
const BINDING: [&[&str]; 4] = [&["AND", "OR"], &["<", ">", "<=", ">=", "==", "!="], &["+", "-"], &["*", "/"]];

struct Reader<'e> {
    tokens: Vec<String>,
    at: usize,
    unknown: Unknown,
    query: &'e dyn Fn(&str) -> MathOperand,
}

impl Reader<'_> {
    fn next(&mut self) -> String {
        self.at += 1;
        self.tokens.get(self.at - 1).expect("an expression goes on").clone()
    }

    fn take(&mut self, sign: &str) -> bool {
        let is = self.tokens.get(self.at).is_some_and(|token| token == sign);
        self.at += usize::from(is);
        is
    }

    fn binary(&mut self, level: usize) -> MathOperand {
        let Some(operators) = BINDING.get(level) else { return self.primary() };
        let mut left = self.binary(level + 1);
        while let Some(operator) = operators.iter().find(|operator| self.take(operator)) {
            left = combine(&left, &self.binary(level + 1), |a, b| apply(operator, a, b));
        }
        left
    }

    fn primary(&mut self) -> MathOperand {
        let token = self.next();
        if token == "(" {
            let inner = self.binary(0);
            assert!(self.take(")"), "a closing parenthesis");
            return inner;
        }
        if let Ok(number) = token.parse() {
            return MathOperand::Number(number);
        }
        if !self.take("(") {
            return (self.query)(&token);
        }
        let mut arguments = vec![self.binary(0)];
        while self.take(",") {
            arguments.push(self.binary(0));
        }
        assert!(self.take(")"), "a closing parenthesis");
        self.call(&token, &arguments)
    }

    fn call(&self, function: &str, arguments: &[MathOperand]) -> MathOperand {
        match (function, arguments) {
            ("IF", [condition, then, or]) => choose(condition, then, or),
            ("FILL", [MathOperand::Series(series), MathOperand::Number(number)]) => {
                // Whether a metric of which nothing at all is known is filled, the documentation leaves open.
                let left = self.unknown == Unknown::IsNotFilled && series.iter().all(Option::is_none);
                let filled = |point: &Option<f64>| if left { None } else { point.or(Some(*number)) };
                MathOperand::Series(series.iter().map(filled).collect())
            }
            ("MAX", [MathOperand::Several(series)]) => across(series, f64::max),
            ("SUM", [MathOperand::Several(series)]) => across(series, |a, b| a + b),
            _ => panic!("no alarm here has {function} of {arguments:?}"),
        }
    }
}

fn apply(operator: &str, a: f64, b: f64) -> Option<f64> {
    let truth = |is: bool| Some(f64::from(u8::from(is)));
    match operator {
        "+" => Some(a + b),
        "-" => Some(a - b),
        "*" => Some(a * b),
        "/" => (b != 0.0).then(|| a / b),
        "<" => truth(a < b),
        ">" => truth(a > b),
        "<=" => truth(a <= b),
        ">=" => truth(a >= b),
        "==" => truth(a == b),
        "!=" => truth(a != b),
        "AND" => truth(a != 0.0 && b != 0.0),
        "OR" => truth(a != 0.0 || b != 0.0),
        _ => unreachable!("{operator} is no operator"),
    }
}

/// A data point where a series has one. What the other lacks there is taken for 0, as documented.
fn combine(a: &MathOperand, b: &MathOperand, with: impl Fn(f64, f64) -> Option<f64>) -> MathOperand {
    use MathOperand::{Number, Series};
    match (a, b) {
        (Number(a), Number(b)) => with(*a, *b).map_or_else(|| panic!("a division by zero"), Number),
        (Series(points), Number(b)) => Series(points.iter().map(|point| with((*point)?, *b)).collect()),
        (Number(a), Series(points)) => Series(points.iter().map(|point| with(*a, (*point)?)).collect()),
        (Series(a), Series(b)) => Series(a.iter().zip(b).map(|points| both(points, &with)).collect()),
        _ => panic!("several series are no operand"),
    }
}

fn both((a, b): (&Option<f64>, &Option<f64>), with: impl Fn(f64, f64) -> Option<f64>) -> Option<f64> {
    if a.is_none() && b.is_none() { None } else { with(a.unwrap_or(0.0), b.unwrap_or(0.0)) }
}

/// A data point where the condition has one, and the chosen side.
fn choose(condition: &MathOperand, then: &MathOperand, or: &MathOperand) -> MathOperand {
    let points = (0..length(condition)).map(|k| point(if point(condition, k)? != 0.0 { then } else { or }, k));
    MathOperand::Series(points.collect())
}

/// A data point where any series has one.
fn across(series: &[Vec<Option<f64>>], with: impl Fn(f64, f64) -> f64) -> MathOperand {
    let length = series.iter().map(Vec::len).max().unwrap_or(0);
    let points = (0..length).map(|k| series.iter().filter_map(|one| one[k]).reduce(&with));
    MathOperand::Series(points.collect())
}

fn length(operand: &MathOperand) -> usize {
    match operand {
        MathOperand::Number(_) => 0,
        MathOperand::Series(points) => points.len(),
        MathOperand::Several(_) => panic!("several series are no operand"),
    }
}

fn point(operand: &MathOperand, k: usize) -> Option<f64> {
    match operand {
        MathOperand::Number(number) => Some(*number),
        MathOperand::Series(points) => points[k],
        MathOperand::Several(_) => panic!("several series are no operand"),
    }
}

#[test]
fn expressions_are_read_as_cloudwatch_reads_them() {
    let query = |id: &str| match id {
        "a" => MathOperand::Series(vec![Some(6.0), None, Some(2.0)]),
        "b" => MathOperand::Series(vec![Some(3.0), Some(1.0), Some(0.0)]),
        "none" => MathOperand::Series(vec![None; 3]),
        "both" => MathOperand::Several(vec![vec![Some(6.0), None, Some(2.0)], vec![Some(7.0), None, None]]),
        other => panic!("{other}"),
    };
    for (expression, points) in [
        ("a + 2 * b", [Some(12.0), Some(2.0), Some(2.0)]),
        ("(a + 2) * b", [Some(24.0), Some(0.0), Some(0.0)]),
        ("a + 2", [Some(8.0), None, Some(4.0)]),
        ("none + a", [Some(6.0), None, Some(2.0)]),
        ("a / b", [Some(2.0), Some(0.0), None]),
        ("FILL(a, 0) - b", [Some(3.0), Some(-1.0), Some(2.0)]),
        ("IF(a >= 6 AND b != 0, a, 0)", [Some(6.0), Some(0.0), Some(0.0)]),
        ("IF(b > 0.5, a, 9)", [Some(6.0), None, Some(9.0)]),
        ("MAX(both)", [Some(7.0), None, Some(2.0)]),
        ("SUM(both)", [Some(13.0), None, Some(2.0)]),
        ("FILL(none, 4)", [Some(4.0); 3]),
    ] {
        assert_eq!(value(expression, Unknown::IsFilled, &query), MathOperand::Series(points.to_vec()), "{expression}");
    }
    assert_eq!(value("FILL(none, 4)", Unknown::IsNotFilled, &query), MathOperand::Series(vec![None; 3]));
}
