// Package queueread reads which executions wait for a worker in a lane and for a permit of a limit, and in which order
// they are served. It applies the rules of the function library to the stored queues: it changes nothing, and adds no
// cost to calls of workers. The rules are in lua/execution/order.lua, lua/composite/claiming/claim_order.lua and
// lua/composite/limits.
package queueread
