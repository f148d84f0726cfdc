//! Admission policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy of
//! `admissionregistration.k8s.io/v1`, with their expressions in CEL (Common Expression Language) as
//! Kubernetes 1.36 has it. Everything here is pure: the room `host` watches the policies, finds
//! those that match a request, and asks the host cluster what the authorizer needs.
//!
//! *Invariants:*
//! - An expression cannot stop the server: its text, its depth, its cost and its time have bounds
//!   (`expression`, `meter`).
//! - An expression that cannot be read or evaluated here fails as its policy's `failurePolicy`
//!   says. It never counts as held.
//! - Objects are borrowed. Evaluating an expression copies what it makes, and nothing else.
//!
//! Deliberately absent: the type check, which the host cluster does when a policy is created.
//!
//! # Modules
//!
//! - `value`: the values of expressions
//! - `fault`: why an expression has no value
//! - `authorizer`: questions about access
//! - `meter`: the bounds of cost and time
//! - `macros`: the macros over two variables
//! - `functions`: the functions of CEL and Kubernetes
//! - `expression`: reads an expression
//! - `evaluate`: evaluates one
//! - `policy`: policies and bindings
//! - `judge`: what a policy says about an object

mod authorizer;
mod evaluate;
mod expression;
mod fault;
mod functions;
mod judge;
mod macros;
mod meter;
mod policy;
mod value;

#[cfg(test)]
mod tests;

pub use authorizer::{Answer, Answers, Check, Question};
pub use evaluate::{Evaluation, Inputs, Variable};
pub use expression::Expression;
pub use fault::Fault;
pub use judge::{Asks, Decision, ErrorKind, Failure, Judged, Judgement, Noted, Patch, Verdict};
pub use meter::{CONDITIONS_COST_MAX, POLICY_COST_MAX};
pub use policy::{
    Action, Annotation, Binding, Condition, Kind, Mutation, ParamKind, ParamRef, PatchKind, Policy, Validation,
};
pub use value::Value;
