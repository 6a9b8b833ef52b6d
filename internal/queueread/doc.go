// Package queueread reads who waits for a worker in a lane and for a place of a limit, and in which order they are
// served. It follows the rules of the function library without carrying anything out: it changes nothing, and costs no
// call of a worker anything. The rules are in lua/execution/order.lua, lua/composite/claiming/claim_order.lua and
// lua/composite/limits.
package queueread
