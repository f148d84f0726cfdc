//! The macros over two variables (`all(key, value, …)`, `transformMap`, …), which the `cel` crate
//! lacks.

use cel::Env;
use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, operators};
use cel::parser::{Macro, MacroExprHelper, ParseError};

/// The name of the accumulator in the macros of the `cel` crate.
const RESULT: &str = "@result";
/// The internal function that adds an entry to a map. No expression can contain this name.
pub const INSERT: &str = "@mapInsert";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    All,
    Exists,
    ExistsOne,
    List,
    Map,
    MapEntry,
}

pub fn add(env: &mut Env) {
    let macros = [
        ("all", 3, Kind::All),
        ("exists", 3, Kind::Exists),
        ("existsOne", 3, Kind::ExistsOne),
        ("exists_one", 3, Kind::ExistsOne),
        ("transformList", 3, Kind::List),
        ("transformList", 4, Kind::List),
        ("transformMap", 3, Kind::Map),
        ("transformMap", 4, Kind::Map),
        ("transformMapEntry", 3, Kind::MapEntry),
        ("transformMapEntry", 4, Kind::MapEntry),
    ];
    for (name, arguments, kind) in macros {
        let expand =
            move |helper: &mut MacroExprHelper<'_>, target: &mut Option<IdedExpr>, args: &mut Vec<IdedExpr>| {
                expand(kind, helper, target.take().expect("it is called on a target"), std::mem::take(args)).map(Some)
            };
        env.add_macro(Macro::receiver(name, arguments, expand)).expect("it is added once");
    }
}

fn expand(
    kind: Kind,
    helper: &mut MacroExprHelper<'_>,
    target: IdedExpr,
    mut args: Vec<IdedExpr>,
) -> Result<IdedExpr, ParseError> {
    let body = args.pop().expect("there are three arguments or more");
    let filter = if args.len() == 3 { args.pop() } else { None };
    let second = name(args.pop().expect("a second variable"), helper)?;
    let first = name(args.pop().expect("a first variable"), helper)?;
    let accumulator = |helper: &mut MacroExprHelper<'_>| helper.next_expr(Expr::Ident(RESULT.to_owned()));
    let boolean = |helper: &mut MacroExprHelper<'_>, value: bool| {
        helper.next_expr(Expr::Literal(LiteralValue::Boolean(value.into())))
    };
    let number =
        |helper: &mut MacroExprHelper<'_>, value: i64| helper.next_expr(Expr::Literal(LiteralValue::Int(value.into())));
    let mut goes_on = boolean(helper, true);
    let mut result = accumulator(helper);
    let own = accumulator(helper);
    let (begin, mut step) = match kind {
        Kind::All => {
            goes_on = call(helper, operators::NOT_STRICTLY_FALSE, vec![own]);
            let own = accumulator(helper);
            (boolean(helper, true), call(helper, operators::LOGICAL_AND, vec![own, body]))
        }
        Kind::Exists => {
            let not = call(helper, operators::LOGICAL_NOT, vec![own]);
            goes_on = call(helper, operators::NOT_STRICTLY_FALSE, vec![not]);
            let own = accumulator(helper);
            (boolean(helper, false), call(helper, operators::LOGICAL_OR, vec![own, body]))
        }
        Kind::ExistsOne => {
            let one = number(helper, 1);
            result = call(helper, operators::EQUALS, vec![result, one]);
            let one = number(helper, 1);
            let more = call(helper, operators::ADD, vec![own, one]);
            let same = accumulator(helper);
            (number(helper, 0), call(helper, operators::CONDITIONAL, vec![body, more, same]))
        }
        Kind::List => {
            let element = helper.next_expr(Expr::List(ListExpr::new(vec![body])));
            let begin = helper.next_expr(Expr::List(ListExpr::new(Vec::new())));
            (begin, call(helper, operators::ADD, vec![own, element]))
        }
        Kind::Map => {
            let key = helper.next_expr(Expr::Ident(first.clone()));
            let begin = helper.next_expr(Expr::Map(MapExpr::default()));
            (begin, call(helper, INSERT, vec![own, key, body]))
        }
        Kind::MapEntry => {
            let begin = helper.next_expr(Expr::Map(MapExpr::default()));
            (begin, call(helper, INSERT, vec![own, body]))
        }
    };
    if let Some(filter) = filter {
        let same = accumulator(helper);
        step = call(helper, operators::CONDITIONAL, vec![filter, step, same]);
    }
    Ok(helper.next_expr(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: target,
        iter_var: first,
        iter_var2: Some(second),
        accu_var: RESULT.to_owned(),
        accu_init: begin,
        loop_cond: goes_on,
        loop_step: step,
        result,
    }))))
}

fn call(helper: &mut MacroExprHelper<'_>, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    helper.next_expr(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
}

fn name(expression: IdedExpr, helper: &MacroExprHelper<'_>) -> Result<String, ParseError> {
    match expression.expr {
        Expr::Ident(name) => Ok(name),
        _ => Err(helper.new_error(expression.id, "argument must be a simple name")),
    }
}
