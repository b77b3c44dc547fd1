//! Peers of every kind against the hub, without sockets and under a simulated clock.

mod bad;
mod behind;
mod by_themselves;
mod facts;
mod filters;
mod good;
mod hostile;
mod kinds;
mod lines;
mod more_kinds;
mod queues;
mod seeds;
mod sets;
mod slow;
mod sought;
mod wake;
mod world;
