// Package deploy has the commands for deployments: accounts, secrets, the audit log, archives, backups, moves and
// profiles.
package deploy
