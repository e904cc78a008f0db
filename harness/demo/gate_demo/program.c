// SPDX-License-Identifier: GPL-2.0
/* The program that is measured. It waits until its events are there. */
#include "demo.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Stay away from the first CPU and its interrupts. With a random layout of its
 * memory the program would not take the same page faults each time.
 */
static void settle_down(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		die("sched_setaffinity: %s", strerror(errno));
	personality(ADDR_NO_RANDOMIZE);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void child(char **argv, const char *output, int socket)
{
	char byte;
	int fd;

	settle_down();
	fd = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
		die("%s: %s", output, strerror(errno));

	/* When the second byte arrives, the write(2) of the first is over. */
	if (read(socket, &byte, 1) != 1 || write(socket, &byte, 1) != 1 ||
	    send(socket, &byte, 1, 0) != 1 || read(socket, &byte, 1) != 1)
		die("lost the parent of the program");
	execvp(argv[0], argv);
	die("%s: %s", argv[0], strerror(errno));
}

/* Prepare ARGV, which will write to OUTPUT. */
struct program program_fork(char **argv, const char *output)
{
	struct program program;
	int sockets[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		die("socketpair: %s", strerror(errno));
	program.pid = fork();
	if (program.pid < 0)
		die("fork: %s", strerror(errno));
	if (!program.pid)
		child(argv, output, sockets[1]);
	close(sockets[1]);
	program.socket = sockets[0];
	return program;
}

/* Have the process make one write(2), and wait for that. */
void program_write_once(struct program *program)
{
	char byte = 0;

	if (write(program->socket, &byte, 1) != 1 ||
	    read(program->socket, &byte, 1) != 1 ||
	    read(program->socket, &byte, 1) != 1)
		die("the program ended before it began");
}

/* Run the program from execve(2) to its end. */
void program_run(struct program *program)
{
	char byte = 0;
	int status;

	if (write(program->socket, &byte, 1) != 1)
		die("the program ended before it began");
	if (waitpid(program->pid, &status, 0) != program->pid)
		die("waitpid: %s", strerror(errno));
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		die("the program failed, wait status %#x", status);
	close(program->socket);
}
