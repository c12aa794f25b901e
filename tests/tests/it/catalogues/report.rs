//! The report about all catalogues.

use std::{collections::BTreeMap, fmt};

use haft_core::schema::{LossKind, Wire};

#[derive(Default)]
pub(super) struct Report {
    /// The number of servers by registry.
    pub(super) servers: BTreeMap<String, usize>,
    pub(super) tools: usize,
    pub(super) output_schemas: usize,
    /// Names that providers reject, replaced by valid ones.
    pub(super) mapped_names: usize,
    /// The rejected tools, with their reasons.
    pub(super) refused: Vec<String>,
    pub(super) profiles: BTreeMap<String, Profile>,
    /// The violations of the tested rules.
    pub(super) broken: Vec<String>,
}

/// The conversions for one profile.
#[derive(Default)]
pub(super) struct Profile {
    as_given: usize,
    strict: usize,
    exact: usize,
    obstacles: BTreeMap<String, usize>,
    losses: BTreeMap<String, usize>,
    /// Tools with generated arguments that are valid for the converted schema.
    pub(super) called: usize,
}

impl Report {
    pub(super) fn add(&mut self, other: Self) {
        for (registry, count) in other.servers {
            *self.servers.entry(registry).or_default() += count;
        }
        self.tools += other.tools;
        self.output_schemas += other.output_schemas;
        self.mapped_names += other.mapped_names;
        self.refused.extend(other.refused);
        self.broken.extend(other.broken);
        for (name, profile) in other.profiles {
            self.profiles.entry(name).or_default().add(profile);
        }
    }
}

impl Profile {
    pub(super) fn count(&mut self, wire: &Wire, is_as_given: bool) {
        self.as_given += usize::from(is_as_given);
        self.strict += usize::from(wire.strict);
        self.exact += usize::from(wire.losses.is_empty());
        for loss in &wire.losses {
            let (counts, what) = match &loss.kind {
                LossKind::NotStrict { reason } => (&mut self.obstacles, reason.clone()),
                kind => (&mut self.losses, format!("{kind:?}")),
            };
            *counts.entry(format!("{}: {what}", loss.keyword)).or_default() += 1;
        }
    }

    fn add(&mut self, other: Self) {
        self.as_given += other.as_given;
        self.strict += other.strict;
        self.exact += other.exact;
        self.called += other.called;
        for (all, some) in [(&mut self.obstacles, other.obstacles), (&mut self.losses, other.losses)] {
            for (what, count) in some {
                *all.entry(what).or_default() += count;
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tools, outputs, names) = (self.tools, self.output_schemas, self.mapped_names);
        writeln!(f, "servers: {:?}", self.servers)?;
        writeln!(f, "tools: {tools}, with an output schema: {outputs}, with a mapped name: {names}")?;
        writeln!(f, "refused: {}", self.refused.len())?;
        self.refused.iter().try_for_each(|refused| writeln!(f, "    {refused}"))?;
        for (name, profile) in &self.profiles {
            write!(f, "\n{name}: ")?;
            let Profile { as_given, strict, exact, called, .. } = profile;
            writeln!(f, "{as_given} as given, {strict} strict, {exact} without a loss, {called} called")?;
            for (title, counts) in [("not strict", &profile.obstacles), ("lost", &profile.losses)] {
                for (what, count) in counts {
                    writeln!(f, "    {title}: {what}: {count}")?;
                }
            }
        }
        Ok(())
    }
}
