//! Checks the documents against the program: their commands print the output on the page, the names
//! in them exist, and their references are generated.

mod even;
mod glossary;
mod named;
mod page;
mod references;
mod walk;
