//! A small grid world: walk around the walls to the goal.
//!
//! The same seed makes the same world. Each step costs a little, a step into a wall costs more, and reaching the goal
//! is worth 1.

use std::collections::{HashSet, VecDeque};

use async_trait::async_trait;
use gladhand_core::operations::Failure;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::environment::{Environment, Episode, Object, Observation, Reset, Space, option, unknown_action, word};
use super::pushes::Pushes;
use super::random::Random;

/// Default size of a side, in squares.
const DEFAULT_SIZE: u64 = 5;

/// Maximum size of a side.
const MAX_SIZE: u64 = 32;

/// Maximum number of steps in an episode.
const MAX_STEPS: u64 = 100_000;

/// How many random worlds are tried before one without walls is used.
const ATTEMPTS: usize = 32;

/// One square in this many is a wall.
const WALL_IN: u64 = 4;

/// The reward of a step.
const STEP: f64 = -0.01;

/// The reward of a step into a wall.
const BUMP: f64 = -0.1;

/// The grid world. Options: `size` of a side, `max_steps`.
#[derive(Debug, Default)]
pub struct Gridworld;

/// A square: column, row.
type Square = (u64, u64);

const DIRECTIONS: [(&str, (i64, i64)); 4] = [("up", (0, -1)), ("down", (0, 1)), ("left", (-1, 0)), ("right", (1, 0))];

/// The state of the world, and the `state` of observations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct World {
    size: u64,
    agent: Square,
    goal: Square,
    walls: Vec<Square>,
    #[serde(default)]
    steps_left: u64,
}

#[async_trait]
impl Environment for Gridworld {
    fn name(&self) -> &str {
        "gridworld"
    }

    fn space(&self) -> Space {
        let square = json!({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2});
        let directions: Vec<&str> = DIRECTIONS.iter().map(|(name, _)| *name).collect();
        Space {
            actions: json!({
                "type": "object",
                "properties": {
                    "action_type": {"const": "move"},
                    "payload": {
                        "type": "object",
                        "properties": {"direction": {"type": "string", "enum": directions}},
                        "required": ["direction"],
                    },
                },
                "required": ["action_type", "payload"],
            }),
            states: json!({
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "minimum": 2, "maximum": MAX_SIZE},
                    "agent": square,
                    "goal": square,
                    "walls": {"type": "array", "items": square},
                    "steps_left": {"type": "integer", "minimum": 0},
                },
                "required": ["size", "agent", "goal", "walls"],
            }),
        }
    }

    async fn reset(&self, reset: Reset, _: Pushes) -> Result<(Box<dyn Episode>, Observation), Failure> {
        let size = option(&reset.options, "size", DEFAULT_SIZE, 2..=MAX_SIZE)?;
        let steps = option(&reset.options, "max_steps", 4 * size * size, 1..=MAX_STEPS)?;
        let random = Random::of(reset.seed);
        let metadata = [("seed".to_owned(), json!(random.seed()))].into_iter().collect();
        let walk = Walk { world: World::made(size, steps, random), metadata };
        let seen = walk.seen(0.0);
        Ok((Box::new(walk), seen))
    }

    fn plan_from(&self, state: &Object) -> Option<Vec<Value>> {
        World::read(state).map(|world| world.plan())
    }
}

#[derive(Debug)]
struct Walk {
    world: World,
    metadata: Object,
}

#[async_trait]
impl Episode for Walk {
    async fn step(&mut self, action: &Object) -> Result<Observation, Failure> {
        let direction = direction(action)?;
        self.world.steps_left = self.world.steps_left.saturating_sub(1);
        let reward = match self.world.beside(self.world.agent, direction) {
            Some(square) => {
                self.world.agent = square;
                if square == self.world.goal { 1.0 } else { STEP }
            }
            None => BUMP,
        };
        Ok(self.seen(reward))
    }

    async fn render(&mut self, mode: &str) -> Result<Option<Value>, Failure> {
        Ok((mode == "text").then(|| Value::String(self.world.drawn())))
    }

    async fn plan(&mut self, state: Option<&Object>) -> Result<Vec<Value>, Failure> {
        let Some(state) = state else { return Ok(self.world.plan()) };
        let world = World::read(state);
        let world = world.ok_or_else(|| Failure::refused("this is not a state of a gridworld"))?;
        Ok(world.plan())
    }
}

impl Walk {
    fn seen(&self, reward: f64) -> Observation {
        let is_there = self.world.agent == self.world.goal;
        let truncated = !is_there && self.world.steps_left == 0;
        let Ok(Value::Object(state)) = serde_json::to_value(&self.world) else { return Observation::default() };
        let metadata = self.metadata.clone();
        Observation { state, reward, done: is_there || truncated, truncated, metadata, ..Observation::default() }
    }
}

/// The direction of an action: `{"action_type": "move", "payload": {"direction": "up"}}`, or `{"type": "up"}` for
/// short.
fn direction(action: &Object) -> Result<(i64, i64), Failure> {
    let named = |name: &str| DIRECTIONS.iter().find(|(direction, _)| *direction == name).map(|(_, way)| *way);
    match word(action) {
        Some("move") => action
            .get("payload")
            .and_then(|payload| named(payload.get("direction")?.as_str()?))
            .ok_or_else(|| unknown_action("a move has a payload with the direction up, down, left or right")),
        Some(word) => named(word).ok_or_else(|| unknown_action(format!("unknown action: {word:?}"))),
        None => Err(unknown_action("an action has an action_type")),
    }
}

impl World {
    /// Generates a world in which the goal can be reached.
    fn made(size: u64, steps_left: u64, mut random: Random) -> Self {
        let square = |random: &mut Random| (random.below(size), random.below(size));
        let agent = square(&mut random);
        let mut goal = square(&mut random);
        while goal == agent {
            goal = square(&mut random);
        }
        let mut world = Self { size, agent, goal, walls: Vec::new(), steps_left };
        for _ in 0..ATTEMPTS {
            world.walls = (0..size)
                .flat_map(|down| (0..size).map(move |across| (across, down)))
                .filter(|square| *square != agent && *square != goal && random.below(WALL_IN) == 0)
                .collect();
            if world.path().is_some() {
                return world;
            }
        }
        world.walls.clear();
        world
    }

    /// Parses a state; `None` if it does not describe a world.
    fn read(state: &Object) -> Option<Self> {
        let world: Self = serde_json::from_value(Value::Object(state.clone())).ok()?;
        let is_inside = |square: &Square| square.0 < world.size && square.1 < world.size;
        let is_whole = (2..=MAX_SIZE).contains(&world.size) && [&world.agent, &world.goal].into_iter().all(is_inside);
        is_whole.then_some(world)
    }

    /// The neighbouring square in a direction, unless it is a wall or outside the world.
    fn beside(&self, (across, down): Square, (right, below): (i64, i64)) -> Option<Square> {
        let square = (across.checked_add_signed(right)?, down.checked_add_signed(below)?);
        let is_inside = square.0 < self.size && square.1 < self.size;
        (is_inside && !self.walls.contains(&square)).then_some(square)
    }

    /// The shortest path to the goal.
    fn path(&self) -> Option<Vec<&'static str>> {
        let walls: HashSet<Square> = self.walls.iter().copied().collect();
        let open = Self { walls: Vec::new(), ..self.clone() };
        let mut from = std::collections::HashMap::from([(self.agent, None)]);
        let mut edge = VecDeque::from([self.agent]);
        while let Some(square) = edge.pop_front() {
            if square == self.goal {
                let mut way = Vec::new();
                let mut at = square;
                while let Some((before, name)) = from.get(&at).copied().flatten() {
                    way.push(name);
                    at = before;
                }
                way.reverse();
                return Some(way);
            }
            for (name, direction) in DIRECTIONS {
                let next = open.beside(square, direction).filter(|next| !walls.contains(next));
                if let Some(next) = next.filter(|next| !from.contains_key(next)) {
                    from.insert(next, Some((square, name)));
                    edge.push_back(next);
                }
            }
        }
        None
    }

    fn plan(&self) -> Vec<Value> {
        let moves = self.path().unwrap_or_default();
        moves.iter().map(|way| json!({"action_type": "move", "payload": {"direction": way}})).collect()
    }

    /// Draws the world: `A` is the agent, `G` the goal, `#` a wall.
    fn drawn(&self) -> String {
        let mut picture = String::new();
        for down in 0..self.size {
            for across in 0..self.size {
                let square = (across, down);
                picture.push(match square {
                    _ if square == self.agent => 'A',
                    _ if square == self.goal => 'G',
                    _ if self.walls.contains(&square) => '#',
                    _ => '.',
                });
            }
            picture.push('\n');
        }
        picture
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_world_can_be_walked_as_planned(seed in any::<i64>(), size in 2u64..=MAX_SIZE) {
            let mut world = World::made(size, 1, Random::of(Some(seed)));
            prop_assert_eq!(&world, &World::made(size, 1, Random::of(Some(seed))));
            let path = world.path().unwrap();
            prop_assert!(!path.is_empty());
            for way in path {
                let (_, direction) = DIRECTIONS.into_iter().find(|(name, _)| *name == way).unwrap();
                world.agent = world.beside(world.agent, direction).unwrap();
            }
            prop_assert_eq!(world.agent, world.goal);
        }
    }

    #[test]
    fn the_shortest_way_is_planned() {
        let world = World { size: 3, agent: (0, 0), goal: (2, 0), walls: vec![(1, 0)], steps_left: 9 };
        assert_eq!(world.path().unwrap(), ["down", "right", "right", "up"]);
        assert_eq!(world.drawn(), "A#G\n...\n...\n");
        let closed = World { walls: vec![(1, 0), (1, 1), (1, 2)], ..world };
        assert_eq!(closed.plan(), Vec::<Value>::new());
    }
}
