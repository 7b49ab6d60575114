//! Circles in a graph: sets of nodes each of which leads to all others (Tarjan's strongly connected
//! components).

/// The circles of more than `least` nodes, largest first; `edges[node]` are the nodes that it leads
/// to.
pub(super) fn larger_than(least: usize, edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut search = Search {
        edges,
        visits: vec![None; edges.len()],
        stack: Vec::new(),
        circles: Vec::new(),
        count: 0,
    };
    for node in 0..edges.len() {
        if search.visits.get(node).is_some_and(Option::is_none) {
            search.visit(node);
        }
    }
    let mut circles = search.circles;
    circles.retain(|circle| circle.len() > least);
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

struct Search<'a> {
    edges: &'a [Vec<usize>],
    visits: Vec<Option<Visit>>,
    stack: Vec<usize>,
    circles: Vec<Vec<usize>>,
    count: usize,
}

/// A node that was reached.
#[derive(Clone, Copy)]
struct Visit {
    number: usize,
    is_on_stack: bool,
}

impl Search<'_> {
    fn visit(&mut self, node: usize) -> usize {
        let number = self.count;
        self.count += 1;
        self.stack.push(node);
        // The lowest number on the stack that this one leads to.
        let mut lowest = number;
        self.note(node, Visit { number, is_on_stack: true });
        for &next in self.edges.get(node).map(Vec::as_slice).unwrap_or_default() {
            lowest = lowest.min(match self.visits.get(next).copied().flatten() {
                None => self.visit(next),
                Some(visit) if visit.is_on_stack => visit.number,
                Some(_) => continue,
            });
        }
        if lowest == number {
            let at = self.stack.iter().rposition(|&other| other == node).unwrap_or(0);
            let circle = self.stack.split_off(at);
            for &node in &circle {
                self.note(node, Visit { number, is_on_stack: false });
            }
            self.circles.push(circle);
        }
        lowest
    }

    fn note(&mut self, node: usize, visit: Visit) {
        if let Some(known) = self.visits.get_mut(node) {
            *known = Some(visit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_and_ways_are_none() {
        // 0 -> 1 -> 2 -> 0; 2 -> 3 -> 4 -> 3; 5 alone.
        let edges = [vec![1], vec![2], vec![0, 3], vec![4], vec![3], vec![]];
        let mut circles = larger_than(1, &edges);
        circles.iter_mut().for_each(|circle| circle.sort_unstable());
        assert_eq!(circles, [vec![0, 1, 2], vec![3, 4]]);
        assert!(larger_than(3, &edges).is_empty());
    }
}
