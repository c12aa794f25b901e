//! Assigns the nodes of a graph to layers, and orders the nodes in each layer.

/// The number of passes over the layers that reorder their nodes to reduce crossings of arrows.
const SWEEPS: usize = 8;

/// The nodes of a graph, assigned to layers. An arrow has a bend in each layer that it crosses.
/// Nodes and bends share one sequence of numbers, which begins with the nodes.
pub(super) struct Layers {
    /// The numbers of the nodes and bends in each layer, from left to right. Layers are in order
    /// from top to bottom.
    pub(super) rows: Vec<Vec<usize>>,
    /// The path of each arrow: the numbers of its first node, its bends, and its last node.
    pub(super) ways: Vec<Vec<usize>>,
    count: usize,
}

impl Layers {
    pub(super) fn of(nodes: usize, edges: impl Iterator<Item = (usize, usize)>) -> Self {
        let edges: Vec<_> = edges.collect();
        let down = without_cycles(nodes, &edges);
        let depths = depths(nodes, &down);
        let deepest = depths.iter().max().map_or(0, |depth| depth + 1);
        let mut layers = Self { rows: vec![Vec::new(); deepest], ways: Vec::new(), count: nodes };
        for (number, depth) in depths.iter().enumerate() {
            layers.put(number, *depth);
        }
        for (from, to) in edges {
            let (start, end) = (depths[from], depths[to]);
            let between: Vec<_> =
                if start < end { (start + 1..end).collect() } else { (end + 1..start).rev().collect() };
            let bends = between.into_iter().map(|depth| layers.bend(depth));
            let bends: Vec<_> = bends.collect();
            layers.ways.push([from].into_iter().chain(bends).chain([to]).collect());
        }
        layers.reduce_crossings();
        layers
    }

    /// Returns the number of nodes and bends in total.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    fn put(&mut self, number: usize, depth: usize) {
        if let Some(row) = self.rows.get_mut(depth) {
            row.push(number);
        }
    }

    fn bend(&mut self, depth: usize) -> usize {
        let number = self.count;
        self.count += 1;
        self.put(number, depth);
        number
    }

    /// Sorts the nodes and bends of each layer by the mean position of their neighbours in the
    /// previous layer, which reduces the number of crossings. The passes go down and up
    /// alternately.
    fn reduce_crossings(&mut self) {
        let mut neighbours = vec![Vec::new(); self.count];
        for step in self.ways.iter().flat_map(|way| way.windows(2)) {
            if let [a, b] = *step {
                neighbours[a].push(b);
                neighbours[b].push(a);
            }
        }
        let depths: Vec<_> = (0..self.rows.len()).collect();
        for sweep in 0..SWEEPS {
            let way: Vec<_> =
                if sweep % 2 == 0 { depths.clone() } else { depths.iter().rev().copied().collect() };
            for pair in way.windows(2) {
                let [before, row] = *pair else { continue };
                let mut places = vec![None; self.count];
                for (place, number) in self.rows[before].iter().enumerate() {
                    places[*number] = Some(place as f64);
                }
                let mean = |number: &usize| {
                    let known: Vec<f64> = neighbours[*number].iter().filter_map(|it| places[*it]).collect();
                    if known.is_empty() { f64::MAX } else { known.iter().sum::<f64>() / known.len() as f64 }
                };
                self.rows[row].sort_by(|a, b| mean(a).total_cmp(&mean(b)));
            }
        }
    }
}

/// Returns the arrows in `edges`, except for those that close a cycle.
fn without_cycles(nodes: usize, edges: &[(usize, usize)]) -> Vec<(usize, usize)> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        OnPath,
        Yes,
    }

    let mut seen = vec![Seen::No; nodes];
    let mut down = Vec::new();
    for start in 0..nodes {
        // The nodes on the current path of the depth-first search. Each node is stored with its
        // unvisited arrows.
        let arrows = |node: usize| edges.iter().rev().filter(move |edge| edge.0 == node).copied();
        let mut way = Vec::new();
        if seen[start] == Seen::No {
            seen[start] = Seen::OnPath;
            way.push((start, arrows(start).collect::<Vec<_>>()));
        }
        while let Some((node, left)) = way.last_mut() {
            let Some((from, to)) = left.pop() else {
                seen[*node] = Seen::Yes;
                way.pop();
                continue;
            };
            if seen[to] != Seen::OnPath {
                down.push((from, to));
            }
            if seen[to] == Seen::No {
                seen[to] = Seen::OnPath;
                way.push((to, arrows(to).collect()));
            }
        }
    }
    down
}

/// Returns the depth of each node: the smallest number for which each arrow in `down` leads to a
/// deeper node. The arrows must have no cycle.
fn depths(nodes: usize, down: &[(usize, usize)]) -> Vec<usize> {
    let mut depths = vec![0; nodes];
    // There is no cycle, so a path visits each node at most once, and `nodes` rounds are enough.
    for _ in 0..nodes {
        for &(from, to) in down {
            depths[to] = depths[to].max(depths[from] + 1);
        }
    }
    depths
}
