//! Lists: the extension of cel-go (version 3) and Kubernetes' library.

use std::cmp::Ordering;

use super::super::fault::Fault;
use super::super::meter::Meter;
use super::super::value::{List, Value};
use super::operators::{self, Operator};
use super::{Outcome, Table};

pub const GLOBALS: Table = &[("lists.range", range)];

pub const METHODS: Table = &[
    ("slice", slice),
    ("flatten", |meter, args| match args {
        [Value::List(list)] => flattened(meter, list, 1),
        [Value::List(_), Value::Int(depth)] if *depth < 0 => Err(Fault::new("level must be non-negative")),
        [Value::List(list), Value::Int(depth)] => flattened(meter, list, *depth),
        _ => Err(Fault::no_overload()),
    }),
    ("sort", |meter, args| match args {
        [list] => sort_by(meter, list, list),
        _ => Err(Fault::no_overload()),
    }),
    ("@sortByAssociatedKeys", |meter, args| match args {
        [list, keys] => sort_by(meter, list, keys),
        _ => Err(Fault::no_overload()),
    }),
    ("reverse", |meter, args| {
        let mut items: Vec<Value<'_>> = only(meter, args)?.iter().collect();
        items.reverse();
        Ok(Value::list(items))
    }),
    ("distinct", |meter, args| {
        let list = only(meter, args)?;
        meter.work(list.len().saturating_mul(list.len()))?;
        let mut kept: Vec<Value<'_>> = Vec::new();
        for item in list.iter() {
            if !kept.iter().any(|known| known.equals(&item)) {
                kept.push(item);
            }
        }
        Ok(Value::list(kept))
    }),
    ("isSorted", |meter, args| {
        let items: Vec<Value<'_>> = only(meter, args)?.iter().collect();
        for pair in items.windows(2) {
            if pair[0].order(&pair[1])? == Some(Ordering::Greater) {
                return Ok(Value::Bool(false));
            }
        }
        Ok(Value::Bool(true))
    }),
    ("sum", |meter, args| {
        let mut items = only(meter, args)?.iter();
        let Some(mut total) = items.next() else { return Ok(Value::Int(0)) };
        for item in items {
            total = operators::apply(Operator::Add, meter, total, item)?;
        }
        Ok(total)
    }),
    ("min", |meter, args| extreme(meter, args, "min", Ordering::Less)),
    ("max", |meter, args| extreme(meter, args, "max", Ordering::Greater)),
];

/// Returns the only argument, after accounting for reading it.
fn only<'a, 'b>(meter: &mut Meter, args: &'b [Value<'a>]) -> Result<&'b List<'a>, Fault> {
    let [Value::List(list)] = args else { return Err(Fault::no_overload()) };
    meter.work(list.len())?;
    Ok(list)
}

fn range<'a>(_: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::Int(end)] = args else { return Err(Fault::no_overload()) };
    Ok(Value::list((0..*end).map(Value::Int).collect()))
}

fn slice<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else { return Err(Fault::no_overload()) };
    let refuse = |why: String| Err(Fault::new(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return refuse("negative indexes not supported".to_owned());
    };
    if from > to {
        return refuse("start index must be less than or equal to end index".to_owned());
    }
    if list.len() < to {
        return refuse(format!("list is length {}", list.len()));
    }
    meter.work(to - from)?;
    Ok(Value::list((from..to).filter_map(|index| list.get(index)).collect()))
}

fn flattened<'a>(meter: &mut Meter, list: &List<'a>, depth: i64) -> Outcome<'a> {
    // The depth of the value bounds the recursion; the parser has bounded the value.
    fn flatten<'a>(meter: &mut Meter, list: &List<'a>, depth: i64, into: &mut Vec<Value<'a>>) -> Result<(), Fault> {
        meter.work(list.len())?;
        for item in list.iter() {
            match item {
                Value::List(nested) if depth > 0 => flatten(meter, &nested, depth - 1, into)?,
                item => into.push(item),
            }
        }
        Ok(())
    }
    let mut items = Vec::new();
    flatten(meter, list, depth, &mut items)?;
    Ok(Value::list(items))
}

fn sort_by<'a>(meter: &mut Meter, list: &Value<'a>, keys: &Value<'a>) -> Outcome<'a> {
    let (Value::List(list), Value::List(keys)) = (list, keys) else { return Err(Fault::no_overload()) };
    if list.len() != keys.len() {
        return Err(Fault::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} \
             elements respectively",
            list.len(),
            keys.len()
        )));
    }
    meter.work(list.len())?;
    let mut items: Vec<(Value<'a>, Value<'a>)> = keys.iter().zip(list.iter()).collect();
    if let Some((first, _)) = items.first() {
        if first.order(first).is_err() {
            return Err(Fault::new("list elements must be comparable"));
        }
        if items.iter().any(|(key, _)| key.type_name() != first.type_name()) {
            return Err(Fault::new("list elements must have the same type"));
        }
    }
    items.sort_by(|(one, _), (two, _)| one.order(two).ok().flatten().unwrap_or(Ordering::Equal));
    Ok(Value::list(items.into_iter().map(|(_, item)| item).collect()))
}

fn extreme<'a>(meter: &mut Meter, args: &[Value<'a>], name: &str, wanted: Ordering) -> Outcome<'a> {
    let mut items = only(meter, args)?.iter();
    let Some(mut best) = items.next() else { return Err(Fault::new(format!("{name} called on empty list"))) };
    for item in items {
        if item.order(&best)? == Some(wanted) {
            best = item;
        }
    }
    Ok(best)
}

fn place<'a>(meter: &mut Meter, args: &[Value<'a>], from_end: bool) -> Outcome<'a> {
    let [Value::List(list), wanted] = args else { return Err(Fault::no_overload()) };
    meter.work(list.len())?;
    let is_it = |item: Value<'a>| item.equals(wanted);
    let found = match from_end {
        false => list.iter().position(is_it),
        true => (0..list.len()).rev().find(|index| list.get(*index).is_some_and(is_it)),
    };
    Ok(Value::Int(found.map_or(-1, |index| index as i64)))
}

pub fn index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    place(meter, args, false)
}

pub fn last_index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Outcome<'a> {
    place(meter, args, true)
}
