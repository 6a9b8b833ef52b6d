// Package auditlog reads the audit log of a namespace. Session.Audited of package engine writes it.
package auditlog
