//! Evaluates expressions. An `Evaluation` belongs to one object and one parameter, and caches the
//! values of the composed variables that were used.

use std::sync::Arc;

use super::authorizer::{AccessAnswers, AccessQuestion, Answer};
use super::expression::{Expression, Fold, Node, Root};
use super::fault::Fault;
use super::functions;
use super::functions::cost;
use super::functions::operators::{self, Operator};
use super::meter::{ACCESS_CHECK_COST, LIST_COST, Meter};
use super::value::{List, Map, Object, Text, Value};

/// The stack that must be left for one more level of an expression. A frame of a debug build has
/// some kilobytes.
const STACK_LEFT_BYTES: usize = 128 * 1024;
const STACK_MORE_BYTES: usize = 2 * 1024 * 1024;
/// The costs of creating a map and an object, as in kube-apiserver.
const MAP_COST: u64 = 30;
const OBJECT_COST: u64 = 40;

type Outcome<'a> = Result<Value<'a>, Fault>;

/// A composed variable: its expression, or the reason why it cannot be parsed.
#[derive(Debug)]
pub struct Variable {
    pub name: String,
    pub expression: Result<Expression, String>,
}

/// The values that expressions may read.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    pub object: Value<'a>,
    pub old_object: Value<'a>,
    pub request: Value<'a>,
    pub params: Value<'a>,
    pub namespace: Value<'a>,
    /// `authorizer` and `authorizer.requestResource`, if they are available to the expressions.
    pub authorizer: Option<[Value<'a>; 2]>,
    pub answers: &'a AccessAnswers,
}

pub struct Evaluation<'a> {
    inputs: Inputs<'a>,
    variables: &'a [Variable],
    known: Vec<Option<Result<Value<'a>, String>>>,
    locals: Vec<Value<'a>>,
    meter: Meter,
    /// The cost that may still be spent.
    budget: u64,
}

impl<'a> Evaluation<'a> {
    pub fn new(inputs: Inputs<'a>, variables: &'a [Variable], budget: u64) -> Evaluation<'a> {
        let known = variables.iter().map(|_| None).collect();
        Evaluation { inputs, variables, known, locals: Vec::new(), meter: Meter::new(), budget }
    }

    /// Returns the value of an expression. The cost counts against the budget of this evaluation.
    pub fn value(&mut self, expression: &'a Expression) -> Outcome<'a> {
        self.meter.cost = 0;
        self.locals.clear();
        let outcome = self.eval(&expression.root);
        self.spend()?;
        outcome
    }

    /// Removes `authorizer`, which is not available to messages and annotations. The variables are
    /// computed again, because some may have read it.
    pub fn without_authorizer(&mut self) {
        self.inputs.authorizer = None;
        self.known.iter_mut().for_each(|known| *known = None);
    }

    /// Returns the rest of the budget.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    pub fn renew(&mut self, budget: u64) {
        self.budget = budget;
    }

    fn spend(&mut self) -> Result<(), Fault> {
        let spent = std::mem::take(&mut self.meter.cost);
        match self.budget.checked_sub(spent) {
            Some(left) => self.budget = left,
            None => {
                self.budget = 0;
                return Err(Fault::OutOfBudget);
            }
        }
        Ok(())
    }

    fn eval(&mut self, node: &'a Node) -> Outcome<'a> {
        stacker::maybe_grow(STACK_LEFT_BYTES, STACK_MORE_BYTES, || self.step(node))
    }

    fn step(&mut self, node: &'a Node) -> Outcome<'a> {
        match node {
            Node::Null => Ok(Value::Null),
            Node::Bool(value) => Ok(Value::Bool(*value)),
            Node::Int(value) => Ok(Value::Int(*value)),
            Node::Uint(value) => Ok(Value::Uint(*value)),
            Node::Double(value) => Ok(Value::Double(*value)),
            Node::String(text) => Ok(Value::borrowed(text)),
            Node::Bytes(bytes) => Ok(Value::Bytes(Arc::clone(bytes))),
            Node::Type(name) => Ok(Value::Type(Text::Borrowed(name))),
            Node::Root(root) => self.root(*root),
            Node::Variable(index) => self.variable(*index),
            Node::Local(place) => {
                self.meter.charge(1)?;
                Ok(self.locals[*place].clone())
            }
            Node::Select { .. } | Node::Has { .. } | Node::OptionalSelect { .. } | Node::Index { .. } => {
                self.access(node)
            }
            Node::And(first, second) => self.logical(first, second, false),
            Node::Or(first, second) => self.logical(first, second, true),
            Node::Not(operand) => {
                self.meter.charge(1)?;
                boolean(self.eval(operand)?).map(|value| Value::Bool(!value))
            }
            Node::NotStrictlyFalse(operand) => {
                self.meter.charge(1)?;
                self.not_strictly_false(operand)
            }
            Node::Negate(operand) => {
                self.meter.charge(1)?;
                operators::negate(&self.eval(operand)?)
            }
            Node::Conditional(parts) => {
                let [condition, yes, no] = &**parts;
                match boolean(self.eval(condition)?)? {
                    true => self.eval(yes),
                    false => self.eval(no),
                }
            }
            Node::Binary(operator, first, second) => self.binary(*operator, first, second),
            Node::List(elements) => {
                self.meter.charge(LIST_COST)?;
                Ok(Value::list(self.elements(elements)?))
            }
            Node::Map(members) => self.map(members),
            Node::Struct { type_name, fields } => self.object(type_name, fields),
            Node::Fold(fold) => self.fold(fold),
            Node::Push(place, elements) => self.push(*place, elements),
            Node::Matches(operand, regex) => match self.eval(operand)? {
                Value::String(text) => {
                    self.meter.charge(cost::of_match(text.as_str(), regex.as_str()))?;
                    Ok(Value::Bool(regex.is_match(text.as_str())))
                }
                _ => Err(Fault::no_overload()),
            },
            Node::Call { name, is_method, function, arguments } => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(self.eval(argument)?);
                }
                if *is_method && let Some(outcome) = self.ask(name, &values) {
                    return outcome;
                }
                self.meter.charge(cost::of_call(name, &values))?;
                match function {
                    Some(function) => function(&mut self.meter, &values),
                    None => Err(Fault::no_overload()),
                }
            }
        }
    }

    fn root(&mut self, root: Root) -> Outcome<'a> {
        self.meter.charge(1)?;
        let absent = || Fault::new("no such attribute(s): authorizer");
        Ok(match root {
            Root::Object => self.inputs.object.clone(),
            Root::OldObject => self.inputs.old_object.clone(),
            Root::Request => self.inputs.request.clone(),
            Root::Params => self.inputs.params.clone(),
            Root::Namespace => self.inputs.namespace.clone(),
            Root::Authorizer => self.inputs.authorizer.as_ref().ok_or_else(absent)?[0].clone(),
            Root::RequestResource => self.inputs.authorizer.as_ref().ok_or_else(absent)?[1].clone(),
        })
    }

    /// Returns the value of a composed variable, which is computed when it is first used. Its cost
    /// counts against the budget, but not against the limit of the expression that uses it.
    fn variable(&mut self, index: usize) -> Outcome<'a> {
        // One for `variables`, and one for a field of it.
        self.meter.charge(2)?;
        let variables: &'a [Variable] = self.variables;
        let Variable { name, expression } = &variables[index];
        if let Some(known) = &self.known[index] {
            return known.clone().map_err(Fault::Error);
        }
        let outcome = match expression {
            Err(why) => Err(format!("composited variable {name:?} fails to compile: {why}")),
            Ok(expression) => {
                let locals = std::mem::take(&mut self.locals);
                let cost = std::mem::take(&mut self.meter.cost);
                let value = self.eval(&expression.root);
                let spent = self.spend();
                self.meter.cost = cost;
                self.locals = locals;
                spent?;
                match value {
                    Err(fault @ (Fault::Asks(_) | Fault::TooLate | Fault::OutOfBudget)) => return Err(fault),
                    value => value.map_err(|fault| format!("composited variable {name:?} fails to evaluate: {fault}")),
                }
            }
        };
        self.known[index] = Some(outcome.clone());
        outcome.map_err(Fault::Error)
    }

    fn access(&mut self, node: &'a Node) -> Outcome<'a> {
        match node {
            Node::Select { operand, field } => {
                let value = self.eval(operand)?;
                self.meter.charge(1)?;
                let (value, is_optional) = opened(value);
                let Some(value) = value else { return Ok(Value::Optional(None)) };
                let found = member(&value, field);
                match is_optional {
                    true => Ok(Value::optional(found)),
                    false => found.ok_or_else(|| Fault::no_key(field)),
                }
            }
            Node::Has { operand, field } => {
                let (value, _) = opened(self.eval(operand)?);
                Ok(Value::Bool(value.is_some_and(|value| member(&value, field).is_some())))
            }
            Node::OptionalSelect { operand, field } => {
                let (value, _) = opened(self.eval(operand)?);
                self.meter.charge(1)?;
                Ok(Value::optional(value.and_then(|value| member(&value, field))))
            }
            Node::Index { operand, key, is_optional } => {
                let value = self.eval(operand)?;
                let key = self.eval(key)?;
                self.meter.charge(1)?;
                let (value, was_optional) = opened(value);
                let Some(value) = value else { return Ok(Value::Optional(None)) };
                match (functions::element(&value, &key), *is_optional || was_optional) {
                    (found, false) => found,
                    (Ok(found), true) => Ok(Value::some(found)),
                    (Err(Fault::Error(why)), true)
                        if why.starts_with("no such key") || why.starts_with("index out of bounds") =>
                    {
                        Ok(Value::Optional(None))
                    }
                    (Err(fault), true) => Err(fault),
                }
            }
            _ => unreachable!("only those above"),
        }
    }

    /// Evaluates `&&` or `||`. An error on one side is ignored if the other side determines the
    /// result.
    fn logical(&mut self, first: &'a Node, second: &'a Node, settles: bool) -> Outcome<'a> {
        let first = match self.eval(first) {
            Ok(Value::Bool(value)) if value == settles => return Ok(Value::Bool(settles)),
            Ok(Value::Bool(_)) => None,
            Ok(_) => Some(Fault::no_overload()),
            Err(fault) if fault.is_absorbed() => Some(fault),
            Err(fault) => return Err(fault),
        };
        match (self.eval(second), first) {
            (Ok(Value::Bool(value)), _) if value == settles => Ok(Value::Bool(settles)),
            (Err(fault), _) if !fault.is_absorbed() => Err(fault),
            (_, Some(fault)) => Err(fault),
            (Ok(Value::Bool(_)), None) => Ok(Value::Bool(!settles)),
            (Ok(_), None) => Err(Fault::no_overload()),
            (Err(fault), None) => Err(fault),
        }
    }

    fn not_strictly_false(&mut self, operand: &'a Node) -> Outcome<'a> {
        match self.eval(operand) {
            Ok(Value::Bool(value)) => Ok(Value::Bool(value)),
            Err(fault) if !fault.is_absorbed() => Err(fault),
            _ => Ok(Value::Bool(true)),
        }
    }

    fn binary(&mut self, operator: Operator, first: &'a Node, second: &'a Node) -> Outcome<'a> {
        let first = self.eval(first)?;
        let second = self.eval(second)?;
        operators::apply(operator, &mut self.meter, first, second)
    }

    fn elements(&mut self, elements: &'a [(Node, bool)]) -> Result<Vec<Value<'a>>, Fault> {
        let mut values = Vec::with_capacity(elements.len());
        for (element, is_optional) in elements {
            match (self.eval(element)?, is_optional) {
                (Value::Optional(value), true) => values.extend(value.map(|value| Value::clone(&value))),
                (value, _) => values.push(value),
            }
        }
        Ok(values)
    }

    fn map(&mut self, members: &'a [(Node, Node, bool)]) -> Outcome<'a> {
        self.meter.charge(MAP_COST)?;
        let mut made: Vec<(Value<'a>, Value<'a>)> = Vec::with_capacity(members.len());
        for (key, value, is_optional) in members {
            let key = self.eval(key)?;
            let value = match (self.eval(value)?, is_optional) {
                (Value::Optional(None), true) => continue,
                (Value::Optional(Some(value)), true) => Value::clone(&value),
                (value, _) => value,
            };
            self.meter.work(made.len())?;
            if made.iter().any(|(known, _)| known.equals(&key)) {
                return Err(Fault::new("Failed with repeated key"));
            }
            made.push((key, value));
        }
        Ok(Value::map(made))
    }

    fn object(&mut self, type_name: &str, fields: &'a [(String, Node, bool)]) -> Outcome<'a> {
        self.meter.charge(OBJECT_COST)?;
        let mut made = Vec::with_capacity(fields.len());
        for (name, value, is_optional) in fields {
            match (self.eval(value)?, is_optional) {
                (Value::Optional(value), true) => {
                    made.extend(value.map(|value| (name.clone(), Value::clone(&value))));
                }
                (value, _) => made.push((name.clone(), value)),
            }
        }
        Ok(Value::Object(Arc::new(Object { type_name: type_name.to_owned(), fields: made })))
    }

    fn push(&mut self, place: usize, elements: &'a [(Node, bool)]) -> Outcome<'a> {
        let added = self.elements(elements)?;
        // The costs of the accumulator, the new list and the sum.
        self.meter.charge(1 + LIST_COST + 1)?;
        // The accumulator is moved out, so that the list is not shared. The step of the
        // comprehension stores it again.
        let list = std::mem::replace(&mut self.locals[place], Value::Null);
        match list {
            Value::List(List::Made(mut items)) => {
                Arc::make_mut(&mut items).extend(added);
                Ok(Value::List(List::Made(items)))
            }
            _ => Err(Fault::no_overload()),
        }
    }

    fn fold(&mut self, fold: &'a Fold) -> Outcome<'a> {
        let range = self.eval(&fold.range)?;
        let begin = self.eval(&fold.begin)?;
        let base = self.locals.len();
        self.locals.push(begin);
        let outcome = self.run(fold, range, base);
        self.locals.truncate(base + 1);
        let outcome = outcome.and_then(|()| self.eval(&fold.result));
        self.locals.truncate(base);
        outcome
    }

    fn run(&mut self, fold: &'a Fold, range: Value<'a>, base: usize) -> Result<(), Fault> {
        let (list, keys) = match range {
            Value::List(list) => (list, None),
            Value::Map(map) => {
                let (keys, values): (Vec<_>, Vec<_>) = map.entries().into_iter().unzip();
                (List::Made(Arc::new(keys)), Some(values))
            }
            _ => return Err(Fault::no_overload()),
        };
        for index in 0..list.len() {
            self.locals.truncate(base + 1);
            let item = list.get(index).expect("it is within the list");
            match (fold.has_two_variables, &keys) {
                (false, _) => self.locals.extend([item]),
                (true, Some(values)) => self.locals.extend([item, values[index].clone()]),
                (true, None) => self.locals.extend([Value::Int(index as i64), item]),
            }
            if let Value::Bool(false) = self.eval(&fold.goes_on)? {
                break;
            }
            self.locals[base] = match self.eval(&fold.step) {
                Ok(value) => value,
                // A later element may determine the result despite this error, as in `exists`.
                Err(fault) if fault.is_absorbed() && is_logical(&fold.step) => {
                    return self.absorb(fold, (&list, &keys), index + 1, base, fault);
                }
                Err(fault) => return Err(fault),
            };
        }
        Ok(())
    }

    /// Searches the rest of a list for an element that determines the result of an `all` or
    /// `exists` although the predicate failed for another element. Without such an element, the
    /// error is the result.
    fn absorb(
        &mut self,
        fold: &'a Fold,
        (list, keys): (&List<'a>, &Option<Vec<Value<'a>>>),
        from: usize,
        base: usize,
        fault: Fault,
    ) -> Result<(), Fault> {
        let (predicate, settles) = match &fold.step {
            Node::And(_, predicate) => (predicate, false),
            Node::Or(_, predicate) => (predicate, true),
            _ => return Err(fault),
        };
        for index in from..list.len() {
            self.locals.truncate(base + 1);
            let item = list.get(index).expect("it is within the list");
            match (fold.has_two_variables, keys) {
                (false, _) => self.locals.extend([item]),
                (true, Some(values)) => self.locals.extend([item, values[index].clone()]),
                (true, None) => self.locals.extend([Value::Int(index as i64), item]),
            }
            match self.eval(predicate) {
                Ok(Value::Bool(value)) if value == settles => {
                    self.locals[base] = Value::Bool(settles);
                    return Ok(());
                }
                Err(hard) if !hard.is_absorbed() => return Err(hard),
                _ => {}
            }
        }
        Err(fault)
    }

    /// Calls a function of the authorizer. Returns `None` if the target is another value.
    fn ask(&mut self, name: &str, values: &[Value<'a>]) -> Option<Outcome<'a>> {
        match values.first()? {
            Value::Authorizer(check) => {
                let mut texts = Vec::with_capacity(values.len());
                for value in &values[1..] {
                    let Value::String(text) = value else { return Some(Err(Fault::no_overload())) };
                    texts.push(text.as_str());
                }
                let charged = self.meter.charge(match (name, texts.as_slice()) {
                    ("check", _) => ACCESS_CHECK_COST,
                    ("fieldSelector" | "labelSelector", [selector]) => cost::of_selector(selector),
                    _ => 1,
                });
                if let Err(fault) = charged {
                    return Some(Err(fault));
                }
                if let ("check", [verb]) = (name, texts.as_slice()) {
                    return Some(answer(check.question(verb), self.inputs.answers));
                }
                let next = match check.narrowed(name, &texts) {
                    Some(next) => next.map_err(Fault::new),
                    None => Err(Fault::no_overload()),
                };
                Some(next.map(|check| Value::Authorizer(Arc::new(check))))
            }
            Value::Decision { allowed, reason, error } => Some(self.meter.charge(1).and_then(|()| match name {
                "allowed" => Ok(Value::Bool(*allowed)),
                "reason" => Ok(Value::String(reason.clone())),
                "errored" => Ok(Value::Bool(!error.as_str().is_empty())),
                "error" => Ok(Value::String(error.clone())),
                _ => Err(Fault::no_overload()),
            })),
            _ => None,
        }
    }
}

/// Returns the decision about the access query of an expression. If it is not known yet, the
/// evaluation ends with the query.
fn answer<'a>(question: Option<AccessQuestion>, answers: &AccessAnswers) -> Outcome<'a> {
    let question = question.ok_or_else(Fault::no_overload)?;
    match answers.get(&question) {
        Some(Answer { allowed, reason, error }) => {
            let [reason, error] = [reason, error].map(|text| Text::Shared(Arc::from(text.as_str())));
            Ok(Value::Decision { allowed: *allowed, reason, error })
        }
        None => Err(Fault::Asks(Box::new(question))),
    }
}

fn is_logical(step: &Node) -> bool {
    matches!(step, Node::And(..) | Node::Or(..))
}

pub fn boolean(value: Value<'_>) -> Result<bool, Fault> {
    match value {
        Value::Bool(value) => Ok(value),
        _ => Err(Fault::no_overload()),
    }
}

/// Unwraps an optional value, and returns whether the value was optional.
fn opened(value: Value<'_>) -> (Option<Value<'_>>, bool) {
    match value {
        Value::Optional(value) => (value.map(|value| Value::clone(&value)), true),
        value => (Some(value), false),
    }
}

fn member<'a>(value: &Value<'a>, field: &str) -> Option<Value<'a>> {
    match value {
        Value::Map(Map::Json(members)) => members.get(field).map(Value::of),
        Value::Map(map) => map.member(field),
        Value::Object(object) => object.field(field).cloned(),
        _ => None,
    }
}
