//! Statements that a client names before it knows whether they exist. A Parse, a Close or a DEALLOCATE that is not answered yet may fail, or
//! be skipped behind an error; what is sent in a later segment is not skipped with it, and PostgreSQL refuses the name then (26000), or finds it still
//! there. Weir, which may have the statement on the server for others, waits for the answers in between.

use super::expected::Expected;
use super::{Conversation, CopyIn, UnnamedIs};
use crate::statements::{Progress, Segment};

/// What of the client's names is on its way, and what waits for it.
#[derive(Default, Debug)]
pub(super) struct Reliance {
    /// The latest segment with a message that gives or drops names.
    named_in: Option<Segment>,
    /// All segments before this one have to be answered.
    awaited: Option<Segment>,
}

/// Messages on their way that are looked through for a name; if there are more, they are waited for.
const LOOKED_THROUGH_MAX: usize = 500;

impl Conversation {
    /// Whether the client's next message has to be kept until more of its earlier ones are answered.
    #[inline]
    pub fn is_awaited(&self) -> bool {
        let awaited = self.reliance.awaited;
        awaited.is_some_and(|segment| self.progress.answered < segment)
            && self.copy_in == CopyIn::No
    }

    /// Once, when what was waited for is there.
    #[inline]
    pub fn take_arrival(&mut self) -> bool {
        let arrived = self.reliance.awaited.is_some() && !self.is_awaited();
        if arrived {
            self.reliance.awaited = None;
        }
        arrived
    }

    /// The message that is being sent gives a name, or drops one.
    #[inline]
    pub(super) fn names_change(&mut self) {
        self.reliance.named_in = Some(self.progress.sent);
    }

    /// Whether the answers that are owed decide if the client has a statement of this name. Then they are waited for.
    #[inline]
    pub(super) fn waits_for_name(&mut self, name: &[u8]) -> bool {
        let is_open = if name.is_empty() {
            self.unnamed_is_open()
        } else {
            self.name_is_open(name)
        };
        if is_open {
            self.reliance.awaited = Some(self.progress.sent);
        }
        is_open
    }

    fn unnamed_is_open(&self) -> bool {
        match &self.unnamed_is {
            UnnamedIs::TheClients { since, .. } => {
                !self.progress.covers(*since) && self.copy_in == CopyIn::No
            }
            UnnamedIs::SomebodyElses => false,
        }
    }

    /// While COPY data is expected, the server answers what comes instead of it.
    #[inline]
    fn name_is_open(&self, name: &[u8]) -> bool {
        let Progress { sent, answered } = self.progress;
        let named_in = self.reliance.named_in;
        answered < sent
            && named_in.is_some_and(|segment| segment >= answered)
            && self.copy_in == CopyIn::No
            && self.is_on_its_way(name)
    }

    fn is_on_its_way(&self, name: &[u8]) -> bool {
        let earlier = self.expected.iter().rposition(Expected::ends_segment);
        let earlier = earlier.map_or(0, |last| last + 1);
        earlier > LOOKED_THROUGH_MAX
            || self
                .expected
                .range(..earlier)
                .any(|expected| expected.decides_about(name))
    }
}
