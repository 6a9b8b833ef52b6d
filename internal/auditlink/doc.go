// Package auditlink has the entries that packages of this module write into the audit log of an engine.
package auditlink
