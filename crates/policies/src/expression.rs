//! Expressions, parsed once into a tree that is quick to evaluate.
//!
//! The `cel` crate parses the text and expands the macros. Its interpreter is not used: it cannot
//! be interrupted, copies each object into its own values, and lacks Kubernetes' functions.
//!
//! The length of the text, the depth of the tree and the nesting of comprehensions are bounded. An
//! expression that exceeds a bound is rejected.

use std::sync::{Arc, LazyLock};
use std::thread;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue, SelectExpr, operators,
};
use cel::{Env, extensions};
use regex::Regex;

use super::functions::operators::Operator;
use super::functions::{self, Function, regex as patterns};
use super::macros;

/// The longest text, in bytes. People write much shorter texts, and the parser's time grows with
/// the length.
const TEXT_BYTES_MAX: usize = 32 * 1024;
/// The deepest tree. Evaluation is recursive.
const DEPTH_MAX: usize = 200;
/// The deepest nesting of comprehensions (`all`, `map`, …). Each level multiplies the work by the
/// length of a list. The cost bounds the work; this constant bounds the attempt.
const COMPREHENSIONS_MAX: usize = 8;
/// The size of the stack of the parser thread. The parser recurses for each member of a long path
/// before the bounds above are checked.
const PARSER_STACK_BYTES: usize = 64 * 1024 * 1024;

static ENV: LazyLock<Env> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    // Only the macro `sortBy` of the extension is used.
    env.add_extension(extensions::lists).expect("it is added once");
    macros::add(&mut env);
    env
});

/// The root variables of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    Object,
    OldObject,
    Request,
    Params,
    Namespace,
    Authorizer,
    /// `authorizer.requestResource`
    RequestResource,
}

/// One step of an expression. Local variables are identified by their index on the stack.
#[derive(Debug)]
pub enum Node {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Arc<[u8]>),
    Root(Root),
    /// A composed variable of the policy.
    Variable(usize),
    Local(usize),
    Type(&'static str),
    Select {
        operand: Box<Node>,
        field: String,
    },
    Has {
        operand: Box<Node>,
        field: String,
    },
    OptionalSelect {
        operand: Box<Node>,
        field: String,
    },
    Index {
        operand: Box<Node>,
        key: Box<Node>,
        is_optional: bool,
    },
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Not(Box<Node>),
    NotStrictlyFalse(Box<Node>),
    Negate(Box<Node>),
    Conditional(Box<[Node; 3]>),
    Binary(Operator, Box<Node>, Box<Node>),
    /// Elements. Optional elements without a value are left out.
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    Struct {
        type_name: String,
        fields: Vec<(String, Node, bool)>,
    },
    Fold(Box<Fold>),
    /// `accumulator + [elements]`, in place.
    Push(usize, Vec<(Node, bool)>),
    Matches(Box<Node>, Regex),
    /// A call. The target of a method is the first argument.
    Call {
        name: String,
        is_method: bool,
        function: Option<Function>,
        arguments: Vec<Node>,
    },
}

/// A comprehension. Its accumulator is on top of the stack, followed by its variables.
#[derive(Debug)]
pub struct Fold {
    pub range: Node,
    pub has_two_variables: bool,
    pub begin: Node,
    pub goes_on: Node,
    pub step: Node,
    pub result: Node,
}

/// A parsed expression.
#[derive(Debug)]
pub struct Expression {
    pub text: String,
    pub(super) root: Node,
}

impl Expression {
    /// Parses an expression. `variables` are the names of the composed variables that it may use.
    /// The error is the reason why it cannot be parsed.
    pub fn parse(text: &str, variables: &[String]) -> Result<Expression, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("it has {} bytes, and the limit is {TEXT_BYTES_MAX}", text.len()));
        }
        let root = thread::scope(|scope| {
            // The parser runs on a separate thread with a larger stack. A panic of the parser is
            // contained.
            let reader =
                thread::Builder::new().stack_size(PARSER_STACK_BYTES).spawn_scoped(scope, || compile(text, variables));
            let reader = reader.map_err(|error| format!("no thread could be started to read it: {error}"))?;
            reader.join().unwrap_or_else(|_| Err("the parser panicked".to_owned()))
        })?;
        Ok(Expression { text: text.to_owned(), root })
    }
}

fn compile(text: &str, variables: &[String]) -> Result<Node, String> {
    let program = ENV.compile(text).map_err(|errors| {
        // The lines after the first point to the position in the text.
        errors.to_string().lines().next().unwrap_or_default().to_owned()
    })?;
    Compiler { variables, locals: Vec::new(), folds: 0 }.node(program.expression(), 0)
}

struct Compiler<'a> {
    variables: &'a [String],
    /// The variables of the enclosing comprehensions.
    locals: Vec<String>,
    folds: usize,
}

type Compiled = Result<Node, String>;

impl Compiler<'_> {
    fn node(&mut self, expression: &IdedExpr, depth: usize) -> Compiled {
        if depth > DEPTH_MAX {
            return Err(format!("it is nested more than {DEPTH_MAX} levels deep"));
        }
        let below = depth + 1;
        Ok(match &expression.expr {
            Expr::Unspecified => return Err("a part of it is empty".to_owned()),
            Expr::Literal(literal) => literal_node(literal),
            Expr::Ident(name) => self.name(name)?,
            Expr::Select(select) => self.select(select, below)?,
            Expr::Call(call) => self.call(call, below)?,
            Expr::List(list) => {
                let is_optional = |index: usize| list.optional_indices.contains(&index);
                let elements = list.elements.iter().enumerate();
                Node::List(
                    elements
                        .map(|(index, element)| Ok((self.node(element, below)?, is_optional(index))))
                        .collect::<Result<_, String>>()?,
                )
            }
            Expr::Map(map) => {
                let mut members = Vec::with_capacity(map.entries.len());
                for IdedEntryExpr { expr, .. } in &map.entries {
                    let EntryExpr::MapEntry(entry) = expr else { return Err("a map has a field".to_owned()) };
                    members.push((self.node(&entry.key, below)?, self.node(&entry.value, below)?, entry.optional));
                }
                Node::Map(members)
            }
            Expr::Struct(made) => {
                let mut fields = Vec::with_capacity(made.entries.len());
                for IdedEntryExpr { expr, .. } in &made.entries {
                    let EntryExpr::StructField(field) = expr else { return Err("an object has a key".to_owned()) };
                    fields.push((unescaped(&field.field), self.node(&field.value, below)?, field.optional));
                }
                let type_name = made.type_name.trim_start_matches('.').to_owned();
                let is_known = type_name == "JSONPatch" || type_name == "Object" || type_name.starts_with("Object.");
                if !is_known {
                    return Err(format!("undeclared reference to '{type_name}'"));
                }
                Node::Struct { type_name, fields }
            }
            Expr::Comprehension(comprehension) => self.fold(comprehension, below)?,
        })
    }

    fn local(&self, name: &str) -> Option<usize> {
        self.locals.iter().rposition(|own| own == name)
    }

    fn name(&self, name: &str) -> Compiled {
        if let Some(place) = self.local(name) {
            return Ok(Node::Local(place));
        }
        Ok(match name.trim_start_matches('.') {
            "object" => Node::Root(Root::Object),
            "oldObject" => Node::Root(Root::OldObject),
            "request" => Node::Root(Root::Request),
            "params" => Node::Root(Root::Params),
            "namespaceObject" => Node::Root(Root::Namespace),
            "authorizer" => Node::Root(Root::Authorizer),
            "bool" => Node::Type("bool"),
            "int" => Node::Type("int"),
            "uint" => Node::Type("uint"),
            "double" => Node::Type("double"),
            "string" => Node::Type("string"),
            "bytes" => Node::Type("bytes"),
            "list" => Node::Type("list"),
            "map" => Node::Type("map"),
            "null_type" => Node::Type("null_type"),
            "type" => Node::Type("type"),
            "optional_type" => Node::Type("optional_type"),
            other => return Err(format!("undeclared reference to '{other}' (in container '')")),
        })
    }

    fn select(&mut self, select: &SelectExpr, depth: usize) -> Compiled {
        let field = select.field.clone();
        if let Expr::Ident(name) = &select.operand.expr
            && self.local(name).is_none()
        {
            match (name.as_str(), field.as_str()) {
                ("variables", _) => {
                    let index = self.variables.iter().position(|own| *own == field);
                    return match (index, select.test) {
                        (Some(_), true) => Ok(Node::Bool(true)),
                        (Some(index), false) => Ok(Node::Variable(index)),
                        (None, _) => Err(format!("undefined field '{field}'")),
                    };
                }
                ("authorizer", "requestResource") => return Ok(Node::Root(Root::RequestResource)),
                _ => {}
            }
        }
        if let Some(name @ ("google.protobuf.Timestamp" | "google.protobuf.Duration")) = path(select).as_deref() {
            let is_time = name.ends_with("Timestamp");
            return Ok(Node::Type(if is_time { "google.protobuf.Timestamp" } else { "google.protobuf.Duration" }));
        }
        let operand = Box::new(self.node(&select.operand, depth)?);
        Ok(match select.test {
            true => Node::Has { operand, field },
            false => Node::Select { operand, field },
        })
    }

    fn call(&mut self, call: &CallExpr, depth: usize) -> Compiled {
        if let Some(target) = &call.target {
            return self.method(call, target, depth);
        }
        if let Some(pushed) = self.push(call, depth)? {
            return Ok(pushed);
        }
        let name = call.func_name.trim_start_matches('.');
        let mut arguments = Vec::with_capacity(call.args.len());
        for argument in &call.args {
            arguments.push(self.node(argument, depth)?);
        }
        match arguments.len() {
            1 => self.unary(name, arguments),
            2 => self.binary(name, arguments),
            3 if name == operators::CONDITIONAL => {
                let parts: [Node; 3] = arguments.try_into().expect("there are three");
                Ok(Node::Conditional(Box::new(parts)))
            }
            _ => global(name, arguments),
        }
    }

    fn unary(&self, name: &str, mut arguments: Vec<Node>) -> Compiled {
        let mut only = || Box::new(arguments.remove(0));
        Ok(match name {
            operators::LOGICAL_NOT => Node::Not(only()),
            operators::NOT_STRICTLY_FALSE => Node::NotStrictlyFalse(only()),
            operators::NEGATE => match *only() {
                Node::Int(value) => Node::Int(value.wrapping_neg()),
                Node::Double(value) => Node::Double(-value),
                other => Node::Negate(Box::new(other)),
            },
            _ => return global(name, arguments),
        })
    }

    fn binary(&self, name: &str, mut arguments: Vec<Node>) -> Compiled {
        let operator = match name {
            operators::ADD => Operator::Add,
            operators::SUBSTRACT => Operator::Subtract,
            operators::MULTIPLY => Operator::Multiply,
            operators::DIVIDE => Operator::Divide,
            operators::MODULO => Operator::Modulo,
            operators::EQUALS => Operator::Equal,
            operators::NOT_EQUALS => Operator::Unequal,
            operators::LESS => Operator::Less,
            operators::LESS_EQUALS => Operator::LessOrEqual,
            operators::GREATER => Operator::Greater,
            operators::GREATER_EQUALS => Operator::GreaterOrEqual,
            operators::IN => Operator::In,
            operators::LOGICAL_AND
            | operators::LOGICAL_OR
            | operators::INDEX
            | operators::OPT_INDEX
            | operators::OPT_SELECT => {
                let second = arguments.pop().expect("there are two");
                let first = Box::new(arguments.pop().expect("there are two"));
                return Ok(match (name, second) {
                    (operators::LOGICAL_AND, second) => Node::And(first, Box::new(second)),
                    (operators::LOGICAL_OR, second) => Node::Or(first, Box::new(second)),
                    (operators::OPT_SELECT, Node::String(field)) => Node::OptionalSelect { operand: first, field },
                    (_, key) => {
                        let is_optional = name != operators::INDEX;
                        Node::Index { operand: first, key: Box::new(key), is_optional }
                    }
                });
            }
            _ => return global(name, arguments),
        };
        let second = Box::new(arguments.pop().expect("there are two"));
        Ok(Node::Binary(operator, Box::new(arguments.pop().expect("there are two")), second))
    }

    /// Compiles `accumulator + [element]` in a comprehension to an in-place append, so that a `map`
    /// over a long list does not copy the list for each element.
    fn push(&mut self, call: &CallExpr, depth: usize) -> Result<Option<Node>, String> {
        let [first, second] = call.args.as_slice() else { return Ok(None) };
        match (&first.expr, &second.expr) {
            (Expr::Ident(name), Expr::List(_)) if call.func_name == operators::ADD && name.starts_with('@') => {
                let Some(place) = self.local(name) else { return Ok(None) };
                let Node::List(elements) = self.node(second, depth)? else { return Ok(None) };
                Ok(Some(Node::Push(place, elements)))
            }
            _ => Ok(None),
        }
    }

    fn method(&mut self, call: &CallExpr, target: &IdedExpr, depth: usize) -> Compiled {
        let name = call.func_name.as_str();
        let mut arguments = Vec::with_capacity(call.args.len() + 1);
        if let Some(namespace) = self.namespace(target) {
            let name = format!("{namespace}.{name}");
            if functions::global(&name).is_some() {
                for argument in &call.args {
                    arguments.push(self.node(argument, depth)?);
                }
                return global(&name, arguments);
            }
        }
        arguments.push(self.node(target, depth)?);
        for argument in &call.args {
            arguments.push(self.node(argument, depth)?);
        }
        if name == "matches"
            && let [_, Node::String(pattern)] = arguments.as_slice()
            && let Ok(regex) = patterns::compiled(pattern)
        {
            return Ok(Node::Matches(Box::new(arguments.remove(0)), regex));
        }
        let function = functions::method(name);
        if function.is_none() && !functions::AUTHORIZER_METHODS.contains(&name) {
            return Err(format!("undeclared reference to '{name}' (in container '')"));
        }
        Ok(Node::Call { name: name.to_owned(), is_method: true, function, arguments })
    }

    /// Returns the name before the dot of a function such as `optional.of`.
    fn namespace(&self, target: &IdedExpr) -> Option<String> {
        match &target.expr {
            Expr::Ident(name) if self.local(name).is_none() => Some(name.trim_start_matches('.').to_owned()),
            _ => None,
        }
    }

    fn fold(&mut self, of: &ComprehensionExpr, depth: usize) -> Compiled {
        let (range, begin) = (self.node(&of.iter_range, depth)?, self.node(&of.accu_init, depth)?);
        // Bindings are comprehensions over an empty list, and add no cost.
        let is_loop = !matches!(&of.iter_range.expr, Expr::List(list) if list.elements.is_empty());
        if is_loop && self.folds == COMPREHENSIONS_MAX {
            return Err(format!("more than {COMPREHENSIONS_MAX} comprehensions are nested"));
        }
        self.folds += usize::from(is_loop);
        let before = self.locals.len();
        self.locals.extend([of.accu_var.clone(), of.iter_var.clone()]);
        self.locals.extend(of.iter_var2.clone());
        let (goes_on, step) = (self.node(&of.loop_cond, depth)?, self.node(&of.loop_step, depth)?);
        self.locals.truncate(before + 1);
        let result = self.node(&of.result, depth)?;
        self.locals.truncate(before);
        self.folds -= usize::from(is_loop);
        let has_two_variables = of.iter_var2.is_some();
        Ok(Node::Fold(Box::new(Fold { range, has_two_variables, begin, goes_on, step, result })))
    }
}

fn global(name: &str, arguments: Vec<Node>) -> Compiled {
    let Some(function) = functions::global(name) else {
        return Err(format!("undeclared reference to '{name}' (in container '')"));
    };
    Ok(Node::Call { name: name.to_owned(), is_method: false, function: Some(function), arguments })
}

fn literal_node(literal: &LiteralValue) -> Node {
    match literal {
        LiteralValue::Null => Node::Null,
        LiteralValue::Boolean(value) => Node::Bool(*value.inner()),
        LiteralValue::Int(value) => Node::Int(*value.inner()),
        LiteralValue::UInt(value) => Node::Uint(*value.inner()),
        LiteralValue::Double(value) => Node::Double(*value.inner()),
        LiteralValue::String(text) => Node::String(text.inner().to_owned()),
        LiteralValue::Bytes(bytes) => Node::Bytes(Arc::from(bytes.inner())),
    }
}

/// Returns the dotted name of nested field selections.
fn path(select: &SelectExpr) -> Option<String> {
    let before = match &select.operand.expr {
        Expr::Ident(name) => name.clone(),
        Expr::Select(before) if !before.test => path(before)?,
        _ => return None,
    };
    (!select.test).then(|| format!("{before}.{}", select.field))
}

/// Returns the name of a field of an object that an expression creates. Kubernetes escapes names
/// that are not valid in CEL.
fn unescaped(name: &str) -> String {
    if let Some(word) = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__")) {
        return word.to_owned();
    }
    [("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"), ("__slash__", "/")]
        .into_iter()
        .fold(name.to_owned(), |name, (escaped, plain)| name.replace(escaped, plain))
}
