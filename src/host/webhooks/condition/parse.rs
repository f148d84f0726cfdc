//! Reads the text of a condition. By descent, one function for each level of precedence.

use serde_json::Value;

use super::{Comparison, Expression, Quantifier, TextTest};

/// Brackets and negations inside each other.
const DEPTH_MAX: usize = 64;
/// Words and marks. What is read becomes a tree that is walked by recursion.
const TOKENS_MAX: usize = 512;
const VARIABLES: [&str; 3] = ["request", "object", "oldObject"];

type Read<T = Expression> = Result<T, String>;

pub(super) fn expression(text: &str) -> Read {
    let mut reader = Reader { tokens: tokens(text)?, at: 0, depth: 0, bound: Vec::new() };
    let root = reader.choice()?;
    match reader.tokens.get(reader.at) {
        None => Ok(root),
        Some(token) => Err(format!("unexpected {token}")),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// Names, and the literals that look like them.
    Word(String),
    Literal(Value),
    Mark(&'static str),
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Token::Word(word) => f.write_str(word),
            Token::Literal(value) => write!(f, "{value}"),
            Token::Mark(mark) => f.write_str(mark),
        }
    }
}

/// Longer ones first.
const MARKS: [&str; 19] =
    ["==", "!=", "<=", ">=", "&&", "||", "(", ")", "[", "]", ".", ",", "?", ":", "!", "<", ">", "-", "+"];

fn tokens(text: &str) -> Read<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let read;
        (read, rest) = match first {
            '/' if rest.starts_with("//") => {
                rest = rest.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
                continue;
            }
            '"' | '\'' => string(first, &rest[1..])?,
            '0'..='9' => number(rest)?,
            'a'..='z' | 'A'..='Z' | '_' => {
                let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
                let (word, rest) = rest.split_at(end);
                // A text with a prefix, such as r"…": its escapes have other rules.
                if rest.starts_with(['"', '\'']) {
                    return Err(format!("{word} before a text"));
                }
                (Token::Word(word.to_owned()), rest)
            }
            _ => {
                let mark = MARKS.into_iter().find(|mark| rest.starts_with(mark));
                let mark = mark.ok_or_else(|| format!("{first:?}"))?;
                (Token::Mark(mark), &rest[mark.len()..])
            }
        };
        if tokens.len() == TOKENS_MAX {
            return Err(format!("more than {TOKENS_MAX} words"));
        }
        tokens.push(read);
        rest = rest.trim_start();
    }
    Ok(tokens)
}

fn string(quote: char, text: &str) -> Read<(Token, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            c if c == quote && at == 0 && text[1..].starts_with(quote) => return Err("a text of many lines".to_owned()),
            c if c == quote => return Ok((Token::Literal(Value::from(value)), &text[at + 1..])),
            '\\' => match characters.next().map(|(_, c)| c) {
                Some(c @ ('\\' | '"' | '\'')) => value.push(c),
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                _ => return Err("an escape in a text".to_owned()),
            },
            '\n' => break,
            c => value.push(c),
        }
    }
    Err("a text without end".to_owned())
}

fn number(text: &str) -> Read<(Token, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.';
    let (digits, rest) = text.split_at(text.find(|c| !is_part(c)).unwrap_or(text.len()));
    let value: Value = serde_json::from_str(digits).map_err(|_| format!("the number {digits}"))?;
    Ok((Token::Literal(value), rest))
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// Variables of the macros around.
    bound: Vec<String>,
}

impl Reader {
    fn takes(&mut self, mark: &str) -> bool {
        let found = matches!(self.tokens.get(self.at), Some(Token::Mark(other)) if *other == mark);
        self.at += usize::from(found);
        found
    }

    fn expects(&mut self, mark: &str) -> Read<()> {
        match self.takes(mark) {
            true => Ok(()),
            false => Err(format!("{} instead of {mark}", self.shown())),
        }
    }

    fn shown(&self) -> String {
        self.tokens.get(self.at).map_or_else(|| "the end".to_owned(), ToString::to_string)
    }

    fn word(&mut self) -> Read<String> {
        let Some(Token::Word(word)) = self.tokens.get(self.at) else {
            return Err(format!("{} instead of a name", self.shown()));
        };
        self.at += 1;
        Ok(word.clone())
    }

    /// One level down, if there may be one.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Reader) -> Read<T>) -> Read<T> {
        if self.depth == DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} levels"));
        }
        self.depth += 1;
        let outcome = read(self);
        self.depth -= 1;
        outcome
    }

    fn choice(&mut self) -> Read {
        self.deeper(|reader| {
            let test = reader.either()?;
            if !reader.takes("?") {
                return Ok(test);
            }
            let then = reader.either()?;
            reader.expects(":")?;
            Ok(Expression::Choose(Box::new([test, then, reader.choice()?])))
        })
    }

    fn either(&mut self) -> Read {
        let mut left = self.both()?;
        while self.takes("||") {
            left = Expression::Either(Box::new(left), Box::new(self.both()?));
        }
        Ok(left)
    }

    fn both(&mut self) -> Read {
        let mut left = self.relation()?;
        while self.takes("&&") {
            left = Expression::Both(Box::new(left), Box::new(self.relation()?));
        }
        Ok(left)
    }

    fn relation(&mut self) -> Read {
        let left = Box::new(self.negation()?);
        if matches!(self.tokens.get(self.at), Some(Token::Word(word)) if word == "in") {
            self.at += 1;
            return Ok(Expression::In(left, Box::new(self.negation()?)));
        }
        let comparisons = [
            ("==", Comparison::Equal),
            ("!=", Comparison::Unequal),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        match comparisons.into_iter().find(|(mark, _)| self.takes(mark)) {
            Some((_, how)) => Ok(Expression::Compare(how, left, Box::new(self.negation()?))),
            None => Ok(*left),
        }
    }

    fn negation(&mut self) -> Read {
        if self.takes("!") {
            return self.deeper(Reader::negation).map(|what| Expression::Not(Box::new(what)));
        }
        if !self.takes("-") {
            return self.member();
        }
        let Some(Token::Literal(Value::Number(number))) = self.tokens.get(self.at) else {
            return Err("a minus that belongs to no number".to_owned());
        };
        let value = match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Value::from(-integer),
            (None, float) => Value::from(-float.unwrap_or_default()),
        };
        self.at += 1;
        Ok(Expression::Literal(value))
    }

    fn member(&mut self) -> Read {
        let mut of = self.primary()?;
        loop {
            if self.takes("[") {
                let at = self.choice()?;
                self.expects("]")?;
                of = Expression::Index(Box::new(of), Box::new(at));
            } else if self.takes(".") {
                let name = self.word()?;
                of = if self.takes("(") { self.method(of, &name)? } else { Expression::Member(Box::new(of), name) };
            } else {
                return Ok(of);
            }
        }
    }

    /// Behind the opening bracket.
    fn method(&mut self, of: Expression, name: &str) -> Read {
        let of = Box::new(of);
        let test = match name {
            "startsWith" => TextTest::StartsWith,
            "endsWith" => TextTest::EndsWith,
            "contains" => TextTest::Contains,
            "size" => {
                self.expects(")")?;
                return Ok(Expression::Size(of));
            }
            "matches" => {
                // Made once, so it must be known by now.
                let Expression::Literal(Value::String(pattern)) = self.choice()? else {
                    return Err("matches() with a pattern that is no literal".to_owned());
                };
                self.expects(")")?;
                let pattern = regex::Regex::new(&pattern).map_err(|_| format!("the pattern {pattern:?}"))?;
                return Ok(Expression::Matches(of, pattern));
            }
            "all" => return self.quantified(of, Quantifier::All),
            "exists" => return self.quantified(of, Quantifier::Exists),
            other => return Err(format!("{other}()")),
        };
        let with = Box::new(self.choice()?);
        self.expects(")")?;
        Ok(Expression::Text(test, of, with))
    }

    fn quantified(&mut self, of: Box<Expression>, wanted: Quantifier) -> Read {
        let name = self.word()?;
        self.expects(",")?;
        self.bound.push(name.clone());
        let test = Box::new(self.choice()?);
        self.bound.pop();
        self.expects(")")?;
        Ok(Expression::Every { of, name, test, wanted })
    }

    fn primary(&mut self) -> Read {
        if self.takes("(") {
            let inner = self.choice()?;
            self.expects(")")?;
            return Ok(inner);
        }
        if self.takes("[") {
            let mut items = Vec::new();
            while !self.takes("]") {
                items.push(self.choice()?);
                if !self.takes(",") {
                    self.expects("]")?;
                    break;
                }
            }
            return Ok(Expression::List(items));
        }
        if let Some(Token::Literal(value)) = self.tokens.get(self.at) {
            self.at += 1;
            return Ok(Expression::Literal(value.clone()));
        }
        match self.word()?.as_str() {
            "true" => Ok(Expression::Literal(Value::Bool(true))),
            "false" => Ok(Expression::Literal(Value::Bool(false))),
            "null" => Ok(Expression::Literal(Value::Null)),
            "has" if self.takes("(") => {
                let Expression::Member(of, name) = self.choice()? else {
                    return Err("has() of something that is no member".to_owned());
                };
                self.expects(")")?;
                Ok(Expression::Has(of, name))
            }
            "size" if self.takes("(") => {
                let of = self.choice()?;
                self.expects(")")?;
                Ok(Expression::Size(Box::new(of)))
            }
            name if VARIABLES.contains(&name) || self.bound.iter().any(|bound| bound == name) => {
                Ok(Expression::Name(name.to_owned()))
            }
            other => Err(other.to_owned()),
        }
    }
}
