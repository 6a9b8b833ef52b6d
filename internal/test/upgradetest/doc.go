// Package upgradetest runs programs while others replace the function library of their engine.
package upgradetest
