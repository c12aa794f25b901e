//! The need for which a reply has no call yet.

/// The need of a reply for which no call is possible before the next tool results.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct UnmetNeed {
    /// The need whose call waits for results: at first the results in the request, and then the
    /// results of the calls in this reply.
    pub(super) deferred: Option<String>,
    /// `true` if a call was discarded, because the conversation has no value for an argument.
    pub(super) lacks_argument: bool,
}

impl UnmetNeed {
    /// Records that the call for `need` was discarded. An earlier deferred need is kept, because
    /// its call comes first.
    pub(super) fn discard_call(&mut self, need: &str) {
        self.lacks_argument = true;
        self.deferred.get_or_insert_with(|| need.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_discarded_call_is_deferred() {
        let mut unmet = UnmetNeed::default();
        unmet.discard_call("send her an email");
        unmet.discard_call("book the room");
        assert_eq!(unmet.deferred.as_deref(), Some("send her an email"));
        assert!(unmet.lacks_argument);
    }
}
