/* SPDX-License-Identifier: OLDAP-2.8 */
/* Gives the main functions of commands other names, for a test that is a program of its own. */
#ifndef LMDBIO_TEST_COMMAND_MAINS_H
#define LMDBIO_TEST_COMMAND_MAINS_H

int convert_main(int argc, char **argv);
int check_main(int argc, char **argv);
int dump_main(int argc, char **argv);
int stat_main(int argc, char **argv);

#endif
