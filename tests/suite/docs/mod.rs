//! The documents are held to the program: their commands print what they show, what they name
//! exists, and their references are generated.

mod even;
mod glossary;
mod named;
mod page;
mod references;
mod walk;
