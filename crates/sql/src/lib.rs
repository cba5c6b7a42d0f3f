//! What the text of a SQL statement says about session state: bytes in, decisions out. No I/O, no clock.
//!
//! Two questions, asked in this order. **What may it do?** [`Scanner::suspicion`] is asked of every text, takes about two
//! instructions per byte, allocates nothing for a plain query, and answers with a superset of the truth. **What does it do?**
//! [`Scanner::effect`] is asked only of suspicious statements, and answers only where the text says it plainly. What is
//! suspicious and not understood is for the server to tell.
//!
//! What no text tells (which functions, triggers and casts touch session state) is learnt from the catalogue: [`learn`].
//! [`setting_names`] tells which custom parameters to ask the server for.
//!
//! Not here: whether a statement succeeded, and what follows from it; that is for whoever sees the server's replies.

mod suspicion;

pub mod lexer;
mod name;
mod statements;

mod learnt_names;
mod scanner;

mod effect;
mod understand;

pub mod learn;
mod setting_names;
mod unnamed_settings;

pub mod fuzz;

pub use effect::{All, Effect, Item, Mode, Scope, SetValue};
pub use learnt_names::LearntNames;
pub use lexer::{Backslashes, Encoding, Strings};
pub use name::Name;
pub use scanner::Scanner;
pub use setting_names::{SettingNames, is_custom_name, setting_names};
pub use statements::{Statements, statements};
pub use suspicion::Suspicion;
pub use understand::{alone_in, executed_name, understand};
pub use unnamed_settings::sets_unnamed;
