// Package decision knows the meaning of signals for people, and which fields of an answer say the same as its signal. A
// signal whose name is a word of agreement or of refusal, such as "approve" or "reject", carries a decision; a field of
// its payload may repeat that decision, and must not contradict it. The fields follow from the schema of the answers:
// [Choices] returns them for forms, and [Check] holds an answer against them.
package decision
