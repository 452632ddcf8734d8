package bus

// ReplyForTest is where the answer to the call is expected.
func (call *Call) ReplyForTest() string { return call.reply }

// SendForTest publishes with a reply subject of the caller's choice.
func (c *Conn) SendForTest(subject, reply string, data []byte) error {
	return c.send(subject, reply, data)
}
