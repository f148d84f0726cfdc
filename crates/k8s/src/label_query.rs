//! The label selector of a query string, `app=web,tier in (a,b),!legacy` (SE1, SE2), parsed into a
//! `Selector`. Unrelated to the `LabelSelector` in objects.

use super::names::{label_value_faults, qualified_name_faults};
use super::selector::Operator;
use super::{FieldErrors, FieldPath, Requirement, Selector};

/// Parses a selector; an empty one matches everything. The error is the message for the client
/// (SE2).
pub fn parse(text: &str) -> Result<Selector, String> {
    Parser { tokens: tokens(text), next: 0 }.query()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// A key or a value. The words `in` and `notin` are operators only if an operator is expected.
    Word(&'a str),
    /// `=`, `==`, `!=`, `>`, `<`, `!`, `(`, `)` or `,`.
    Symbol(&'a str),
    End,
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Token::Word(text) | Token::Symbol(text) => text,
            Token::End => "",
        }
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", ">", "<", "(", ")", ","];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(BLANKS);
    while !rest.is_empty() {
        let (token, length) = match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(symbol) => (Token::Symbol(&rest[..symbol.len()]), symbol.len()),
            None => {
                let ends = |c: char| BLANKS.contains(&c) || "=!><(),".contains(c);
                let length = rest.find(ends).unwrap_or(rest.len());
                (Token::Word(&rest[..length]), length)
            }
        };
        tokens.push(token);
        rest = rest[length..].trim_start_matches(BLANKS);
    }
    tokens
}

const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.next).copied().unwrap_or(Token::End)
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn query(mut self) -> Result<Selector, String> {
        let mut requirements = Vec::new();
        if self.peek() == Token::End {
            return Ok(Selector::default());
        }
        loop {
            match self.peek() {
                Token::Word(_) | Token::Symbol("!") => {}
                other if requirements.is_empty() => {
                    return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text()));
                }
                other => return Err(format!("found '{}', expected: identifier after ','", other.text())),
            }
            requirements.push(self.requirement()?);
            match self.take() {
                Token::End => return Ok(Selector::new(requirements)),
                Token::Symbol(",") => {}
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let unparsable = |why: String| format!("unable to parse requirement: {why}");
        let mut first = self.take();
        let negated = first == Token::Symbol("!");
        if negated {
            first = self.take();
        }
        let Token::Word(key) = first else {
            return Err(unparsable(format!("found '{}', expected: identifier", first.text())));
        };
        refuse(&FieldPath::root(), key, &qualified_name_faults(key)).map_err(unparsable)?;
        let at_end = matches!(self.peek(), Token::End | Token::Symbol(","));
        let (operator, values) = match (negated, at_end) {
            (true, true) => (Operator::DoesNotExist, Vec::new()),
            (false, true) => (Operator::Exists, Vec::new()),
            // Kubernetes refuses `!a=b`, too: the negation is ambiguous.
            (true, false) => {
                return Err(format!("found '{}', expected: ',' or 'end of string'", self.peek().text()));
            }
            (false, false) => self.comparison(key).map_err(unparsable)?,
        };
        Requirement::new(key, operator, &values).map_err(|malformed| unparsable(malformed.to_string()))
    }

    fn comparison(&mut self, key: &str) -> Result<(Operator, Vec<&'a str>), String> {
        match self.take() {
            Token::Word("in") => Ok((Operator::In, self.values(key)?)),
            Token::Word("notin") => Ok((Operator::NotIn, self.values(key)?)),
            Token::Symbol("=" | "==") => Ok((Operator::In, vec![self.value(key)?])),
            Token::Symbol("!=") => Ok((Operator::NotIn, vec![self.value(key)?])),
            Token::Symbol(">") => Ok((Operator::Gt, vec![self.number()?])),
            Token::Symbol("<") => Ok((Operator::Lt, vec![self.number()?])),
            other => Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text())),
        }
    }

    /// Parses the value after `=`, which may be empty.
    fn value(&mut self, key: &str) -> Result<&'a str, String> {
        let value = self.bare_value()?;
        refuse(&FieldPath::new("values").index(0).key(key), value, &label_value_faults(value))?;
        Ok(value)
    }

    fn bare_value(&mut self) -> Result<&'a str, String> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(""),
            Token::Word(value) => {
                self.next += 1;
                Ok(value)
            }
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn number(&mut self) -> Result<&'a str, String> {
        let value = self.bare_value()?;
        if value.parse::<i64>().is_ok() {
            return Ok(value);
        }
        let why = "for 'Gt', 'Lt' operators, the value must be an integer".to_owned();
        refuse(&FieldPath::new("values").index(0), value, &[why])?;
        Ok(value)
    }

    /// Parses `(a,b)`. Nothing between two commas is an empty value, and so is `()`.
    fn values(&mut self, key: &str) -> Result<Vec<&'a str>, String> {
        match self.take() {
            Token::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = Vec::new();
        loop {
            let value = match self.peek() {
                Token::Word(value) => {
                    self.next += 1;
                    value
                }
                Token::Symbol("," | ")") => "",
                other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
            };
            let path = FieldPath::new("values").index(values.len()).key(key);
            refuse(&path, value, &label_value_faults(value))?;
            values.push(value);
            match self.take() {
                Token::Symbol(")") => return Ok(values),
                Token::Symbol(",") => {}
                other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
            }
        }
    }
}

fn refuse(path: &FieldPath, value: &str, faults: &[String]) -> Result<(), String> {
    if faults.is_empty() {
        return Ok(());
    }
    let mut errors = FieldErrors::default();
    errors.invalid(path, value, faults.join("; "));
    let first = errors.iter().next().map(ToString::to_string);
    first.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Vec<(Box<str>, Box<str>)> {
        let mut labels: Vec<(Box<str>, Box<str>)> =
            pairs.iter().map(|&(key, value)| (key.into(), value.into())).collect();
        labels.sort();
        labels
    }

    #[test]
    fn se1_every_operator_selects_as_kubernetes_does() {
        let web = labels(&[("app", "web"), ("n", "5"), ("empty", "")]);
        for yes in [
            "",
            "app",
            "app=web",
            "app==web",
            " app = web , n ",
            "app in (web, db)",
            "app notin (db)",
            "other notin (x)",
            "other!=x",
            "!other",
            "n>4,n<6",
            "empty=",
            "empty in ()",
            "empty in (,a)",
            "empty in (a,)",
            "app!=",
            "in notin (in,notin)",
        ] {
            assert!(parse(yes).unwrap().matches(web.as_slice()), "{yes:?}");
        }
        for no in ["!app", "app=db", "app!=web", "other", "app notin (web)", "n>5", "app>1", "other<1", "app=web,x"] {
            assert!(!parse(no).unwrap().matches(web.as_slice()), "{no:?}");
        }
    }

    #[test]
    fn se2_what_is_no_selector_is_refused_with_a_sentence() {
        let cases = [
            ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
            ("a in x", "unable to parse requirement: found 'x' expected: '('"),
            ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            (",a", "found ',', expected: !, identifier, or 'end of string'"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("a==(b)", "unable to parse requirement: found '(', expected: identifier"),
            (
                "a>x",
                "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value \
                 must be an integer",
            ),
        ];
        for (text, sentence) in cases {
            assert_eq!(parse(text).unwrap_err(), sentence, "{text:?}");
        }
        let error = parse("a/b/c=x").unwrap_err();
        assert!(error.starts_with("unable to parse requirement: <nil>: Invalid value: \"a/b/c\": a valid label key"));
        let error = parse("a=b%c").unwrap_err();
        assert!(error.contains("values[0][a]: Invalid value: \"b%c\": a valid label must be"), "{error}");
    }
}
